// Adds multiples of one vector to another on a stream. Its kernel is not there yet: what it does, the function above it says.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                   \
    do {                                                                              \
        cudaError_t error_ = (call);                                                  \
        if (error_ != cudaSuccess) {                                                  \
            std::fprintf(stderr, "%s\n", cudaGetErrorString(error_));                 \
            std::exit(1);                                                             \
        }                                                                             \
    } while (0)
#define LAUNCH(kernel, stream, n, ...)                                                \
    do {                                                                              \
        kernel<<<((n) + 255) / 256, 256, 0, stream>>>(n, __VA_ARGS__);                \
        CHECK(cudaGetLastError());                                                    \
    } while (0)

void saxpy_cpu(int n, float a, const float* x, float* y) {
    for (int i = 0; i < n; ++i) {
        y[i] = a * x[i] + y[i];
    }
}

// stitchcuda: implement reference=saxpy_cpu outputs=y : y = a*x + y, one thread per element
__global__ void saxpy(int n, float a, const float* x, float* y);

int main() {
    const int n = (1 << 20) + 3;
    std::vector<float> x(n), y(n);
    for (int i = 0; i < n; ++i) {
        x[i] = 1.0f / static_cast<float>(i % 97 + 3);
        y[i] = static_cast<float>(i % 31) / 7.0f;
    }
    float *both = nullptr, *pooled = nullptr;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&both, 2 * n * sizeof(float)));  // x and y lie in one allocation
    CHECK(cudaMallocAsync(&pooled, n * sizeof(float), stream));
    CHECK(cudaMemcpyAsync(both, x.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(both + n, y.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(pooled, 0, n * sizeof(float), stream));
    for (int step = 0; step < 4; ++step) {
        saxpy<<<(n + 255) / 256, 256, 0, stream>>>(n, 0.1f * static_cast<float>(step + 1), both, both + n);
        CHECK(cudaGetLastError());
    }
    LAUNCH(saxpy, stream, n, 3.0f, both + n, pooled);
    CHECK(cudaMemcpyAsync(y.data(), both + n, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(x.data(), pooled, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    double sum = 0;
    for (int i = 0; i < n; ++i) {
        sum += x[i] + y[i];
    }
    std::printf("sum %.9g\n", sum);
    CHECK(cudaFreeAsync(pooled, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(both));
    CHECK(cudaStreamDestroy(stream));
}
