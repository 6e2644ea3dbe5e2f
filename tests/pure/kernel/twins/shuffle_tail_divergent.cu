// code: divergent-barrier
#include <cuda_runtime.h>

__global__ void k(const int* in, int* out) {
    __shared__ int s[32];
    int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
    int v = in[threadIdx.x];
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    if (lane == 0) {
        s[w] = v;
        __syncthreads();  // only: bad
    }
    __syncthreads();  // only: ok
    if (threadIdx.x == 0) {
        int t = 0;
        for (int i = 0; i < 8; i++) t += s[i];
        *out = t;
    }
}
void run(int* a, int* b) {
    k<<<1, 256>>>(a, b);
}
