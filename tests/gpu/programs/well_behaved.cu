// A small program that the ill-behaved ones beside it are versions of.
#include <cstdio>

#include <cuda_runtime.h>

const int N = 1 << 20;

__global__ void scale(float* values, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] *= factor;
    }
}

int main() {
    float* values = new float[N];
    for (int i = 0; i < N; ++i) {
        values[i] = static_cast<float>(i % 1000);
    }
    float* d_values = nullptr;
    cudaMalloc(&d_values, N * sizeof(float));
    cudaMemcpy(d_values, values, N * sizeof(float), cudaMemcpyHostToDevice);
    for (int step = 0; step < 20; ++step) {
        scale<<<N / 256, 256>>>(d_values, 1.01f, N);
    }
    cudaMemcpy(values, d_values, N * sizeof(float), cudaMemcpyDeviceToHost);
    std::printf("value %.3f\n", values[999]);
    cudaFree(d_values);
    delete[] values;
    return 0;
}
