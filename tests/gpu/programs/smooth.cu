// Smooths a field again and again, with memory and waits in every step that nothing needs.
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                   \
    do {                                                                              \
        cudaError_t error_ = (call);                                                  \
        if (error_ != cudaSuccess) {                                                  \
            std::fprintf(stderr, "%s\n", cudaGetErrorString(error_));                 \
            return 1;                                                                 \
        }                                                                             \
    } while (0)

__global__ void spread(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float left = in[i == 0 ? n - 1 : i - 1];
        float right = in[i == n - 1 ? 0 : i + 1];
        out[i] = 0.25f * left + 0.5f * in[i] + 0.25f * right;
    }
}

int main() {
    const int n = 1 << 20;  // memory of this size is costly to allocate and free
    std::vector<float> field(n);
    for (int i = 0; i < n; ++i) {
        field[i] = static_cast<float>(i % 97);
    }
    float* d_field = nullptr;
    CHECK(cudaMalloc(&d_field, n * sizeof(float)));
    CHECK(cudaMemcpy(d_field, field.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    for (int step = 0; step < 200; ++step) {
        float* d_next = nullptr;
        CHECK(cudaMalloc(&d_next, n * sizeof(float)));
        spread<<<n / 256, 256>>>(d_field, d_next, n);
        CHECK(cudaDeviceSynchronize());
        spread<<<n / 256, 256>>>(d_next, d_field, n);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaFree(d_next));
    }
    CHECK(cudaMemcpy(field.data(), d_field, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_field));
    double sum = 0.0;
    for (float value : field) {
        sum += value;
    }
    std::printf("sum %.6f first %.6f\n", sum, field[0]);
    return 0;
}
