// Kernels whose time is set by the number of rounds they do.
#include <cstdio>

#include <cuda_runtime.h>

const int N = 1 << 16;
const int ROUNDS = 20000;

__global__ void mix(unsigned* values, int rounds) {
    unsigned value = values[blockIdx.x * blockDim.x + threadIdx.x];
    for (int i = 0; i < rounds; ++i) {
        value = value * 1664525u + 1013904223u;
    }
    values[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

int main() {
    unsigned* values = new unsigned[N]();
    unsigned* d_values = nullptr;
    cudaMalloc(&d_values, N * sizeof(unsigned));
    cudaMemcpy(d_values, values, N * sizeof(unsigned), cudaMemcpyHostToDevice);
    for (int step = 0; step < 30; ++step) {
        mix<<<N / 256, 256>>>(d_values, 5000);
        mix<<<N / 256, 256>>>(d_values, ROUNDS);
    }
    cudaMemcpy(values, d_values, N * sizeof(unsigned), cudaMemcpyDeviceToHost);
    std::printf("value %u\n", values[7]);
    cudaFree(d_values);
    delete[] values;
    return 0;
}
