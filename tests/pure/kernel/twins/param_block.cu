// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void k(const float* in, float* out) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();  // only: ok
    out[t] = s[blockDim.x - 1 - t];
}
void launch(float* a, float* b, int threads) {
    k<<<1, threads, threads * sizeof(float)>>>(a, b);
}
int main() {
    float *a, *b;
    cudaMalloc(&a, 4096);
    cudaMalloc(&b, 4096);
    launch(a, b, 512);
    cudaDeviceSynchronize();
}
