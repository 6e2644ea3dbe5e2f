// code: missing-syncwarp
#include <cuda_runtime.h>

__global__ void oneWarp(const float* in, float* out) {
    __shared__ float s[32];
    s[threadIdx.x] = in[blockIdx.x * 32 + threadIdx.x];
    __syncwarp();  // only: ok
    out[blockIdx.x * 32 + threadIdx.x] = s[31 - threadIdx.x];
}
void run(float *a, float *b, int n) {
    oneWarp<<<n / 32, 32>>>(a, b);
}
