#include <cuda_runtime.h>

__device__ unsigned int count = 0;
__global__ void k(const float* in, volatile float* part, float* out, int n) {
    __shared__ float s[256];
    __shared__ bool last;
    int t = threadIdx.x;
    float v = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) v += in[i];
    s[t] = v;
    __syncthreads();
    for (int h = 128; h > 0; h >>= 1) {
        if (t < h) s[t] += s[t + h];
        __syncthreads();
    }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        __threadfence();
        unsigned int k = atomicInc(&count, gridDim.x);
        last = k == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        v = 0;
        for (int i = t; i < gridDim.x; i += 256) v += part[i];
        s[t] = v;
        __syncthreads();
        for (int h = 128; h > 0; h >>= 1) {
            if (t < h) s[t] += s[t + h];
            __syncthreads();
        }
        if (t == 0) out[0] = s[0];
    }
}
void r(float* a, float* b, float* c, int n) {
    k<<<64,256>>>(a, b, c, n);
}
