// code: divergent-barrier
#include <cuda_runtime.h>

__global__ void smooth(const float* in, float* out, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        s[threadIdx.x] = in[i];
        __syncthreads();  // only: bad
    }
    __syncthreads();  // only: ok
    if (i < n) {
        float left = threadIdx.x > 0 ? s[threadIdx.x - 1] : 0.0f;
        out[i] = 0.5f * (left + s[threadIdx.x]);
    }
}
void run(float *a, float *b, int n) {
    smooth<<<(n + 255) / 256, 256>>>(a, b, n);
}
