// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void sumBlock(const float* in, float* out, int n) {
    __shared__ float part[256];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    float v = i < n ? in[i] : 0.0f;
    if (i + blockDim.x < n) v += in[i + blockDim.x];
    part[tid] = v;
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) part[tid] += part[tid + s];
        __syncthreads();  // only: ok
    }
    if (tid == 0) out[blockIdx.x] = part[0];
}
void run(float *a, float *b, int n) {
    sumBlock<<<(n + 511) / 512, 256>>>(a, b, n);
}
