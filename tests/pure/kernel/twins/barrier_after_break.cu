// code: divergent-barrier
#include <cuda_runtime.h>

__global__ void relax(int* dist, const int* next, int rounds) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = dist[t];
    __syncthreads();
    for (int r = 0; r < rounds; ++r) {
        int v = s[next[t]];
        __syncthreads();
        if (v < s[t]) s[t] = v;
        else if (v == 0) break;  // only: bad
        __syncthreads();
    }
    dist[t] = s[t];
}
void run(int* a, int* b) { relax<<<1, 256>>>(a, b, 10); }
