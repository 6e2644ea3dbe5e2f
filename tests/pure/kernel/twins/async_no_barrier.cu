// code: missing-syncthreads
#include <cuda_runtime.h>

#include <cuda_pipeline.h>
__global__ void load(const float* in, float* out) {
    __shared__ float s[256];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], &in[blockIdx.x * 256 + t], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();  // only: ok
    out[blockIdx.x * 256 + t] = s[255 - t];
}
void run(float *a, float *b, int n) {
    load<<<n / 256, 256>>>(a, b);
}
