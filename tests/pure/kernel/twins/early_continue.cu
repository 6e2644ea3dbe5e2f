// code: divergent-barrier
#include <cuda_runtime.h>

__global__ void k(const int* in, int* out, int n) {
    __shared__ int s[128];
    int t = threadIdx.x;
    for (int c = 0; c < 4; ++c) {
        int v = in[c * 128 + t];
        if (v < 0) continue;  // only: bad
        s[t] = v;
        __syncthreads();
        out[c * 128 + t] = s[127 - t];
        __syncthreads();
    }
}
void run(int* a, int* b, int n) {
    k<<<1, 128>>>(a, b, n);
}
