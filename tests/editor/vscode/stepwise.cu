#include <cuda_runtime.h>
#include <vector>

__global__ void grow(float *x) { x[threadIdx.x] += 1; }
__global__ void scale(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }

int main() {
    float *x, *y;
    std::vector<float> middle(256);
    cudaMalloc(&x, 1024);
    cudaMalloc(&y, 1024);
    cudaMemset(x, 0, 1024);
    for (int step = 0; step < 10; ++step) {
        float *extra;
        cudaMalloc(&extra, 1024);
        grow<<<1, 256>>>(x);
        cudaDeviceSynchronize();
        scale<<<1, 256>>>(x, extra);
        scale<<<1, 256>>>(extra, x);
        cudaFree(extra);
    }
    cudaMemcpy(middle.data(), x, 1024, cudaMemcpyDeviceToHost);
    cudaFree(x);
    cudaMemcpy(y, middle.data(), 1024, cudaMemcpyHostToDevice);
    grow<<<1, 256>>>(y);
    cudaDeviceSynchronize();
    cudaFree(y);
    return 0;
}
