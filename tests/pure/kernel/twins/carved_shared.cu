// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void centroids(const float* px, const float* py, float* out, int n) {
    extern __shared__ float pool[];
    float* sx = pool;
    float* sy = pool + blockDim.x;
    int* tag = (int*)&sy[blockDim.x];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    sx[t] = px[i];
    sy[t] = py[i];
    tag[t] = t & 1;
    __syncthreads();  // only: ok
    int other = blockDim.x - 1 - t;
    out[i] = sx[other] + sy[other] + tag[other];
}
void run(float* a, float* b, float* c, int n) { centroids<<<n / 128, 128, 3 * 128 * sizeof(float)>>>(a, b, c, n); }
