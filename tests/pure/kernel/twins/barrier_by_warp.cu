// code: divergent-barrier
#include <cuda_runtime.h>

__global__ void roles(const float* in, float* out) {
    __shared__ float s[64];
    const int warp = threadIdx.x >> 5;
    if (warp == 0) {
        s[threadIdx.x] = in[threadIdx.x];
        s[threadIdx.x + 32] = in[threadIdx.x + 32];
        __syncthreads();  // only: bad
    }
    __syncthreads();  // only: ok
    if (warp == 1) out[threadIdx.x] = s[threadIdx.x - 32] + s[threadIdx.x];
}
void run(float* a, float* b) { roles<<<1, 64>>>(a, b); }
