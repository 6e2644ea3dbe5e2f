// code: missing-syncwarp
#include <cuda_runtime.h>

__global__ void rotate(const float* in, float* out) {
    __shared__ float rows[4][32];
    int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
    rows[w][lane] = in[blockIdx.x * 128 + threadIdx.x];
    __syncwarp();  // only: ok
    out[blockIdx.x * 128 + threadIdx.x] = rows[w][(lane + 1) & 31];
}
void run(float *a, float *b, int n) {
    rotate<<<n / 128, 128>>>(a, b);
}
