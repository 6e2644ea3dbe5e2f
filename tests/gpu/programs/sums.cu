// Adds up rows of pseudo-random numbers and brings the sums to the host in three ways.
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

constexpr int TERMS = 64;

__device__ float term(unsigned row, unsigned k) {
    unsigned x = row * 2654435761u + k * 40503u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return 0.5f + static_cast<float>(x >> 8) / 16777216.0f;
}

__global__ void add_up(float* sums, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) {
        float sum = 0.0f;
        for (int k = 0; k < TERMS; ++k) {
            sum += term(row, k);
        }
        sums[row] = sum;
    }
}

int main() {
    const int n = 1 << 22;
    std::vector<float> sums(n);
    std::vector<float> corner(16 * 64);
    float* d_sums = nullptr;
    float* first = nullptr;
    CHECK(cudaMalloc(&d_sums, n * sizeof(float)));
    CHECK(cudaMallocHost(&first, 256 * sizeof(float)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    add_up<<<(n + 255) / 256, 256, 0, stream>>>(d_sums, n);
    CHECK(cudaMemcpyAsync(first, d_sums, 256 * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(sums.data(), d_sums, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy2D(corner.data(), 64 * sizeof(float), d_sums, 1024 * sizeof(float), 16 * sizeof(float), 16,
                       cudaMemcpyDeviceToHost));
    std::printf("rows %d, last of the first %d\n", n, first[255] == sums[255] && corner[64] == sums[1024]);
    CHECK(cudaFree(d_sums));
    CHECK(cudaFreeHost(first));
    return 0;
}
