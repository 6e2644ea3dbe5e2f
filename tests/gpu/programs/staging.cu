// Batches go through one pinned staging buffer. The wait at the end of the loop keeps the host from filling the buffer
// while the copy still reads it.
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

#define CHECK(call)                                                                             \
    do {                                                                                        \
        cudaError_t status = (call);                                                            \
        if (status != cudaSuccess) {                                                            \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            std::exit(1);                                                                       \
        }                                                                                       \
    } while (0)

const int N = 1 << 16;
const int BATCHES = 24;

__global__ void accumulate(const float* batch, float* sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        sum[i] += batch[i];
    }
}

int main() {
    float* staging = nullptr;
    float* d_batch = nullptr;
    float* d_sum = nullptr;
    cudaStream_t stream;
    CHECK(cudaMallocHost(&staging, N * sizeof(float)));
    CHECK(cudaMalloc(&d_batch, N * sizeof(float)));
    CHECK(cudaMalloc(&d_sum, N * sizeof(float)));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemsetAsync(d_sum, 0, N * sizeof(float), stream));
    for (int batch = 0; batch < BATCHES; ++batch) {
        for (int i = 0; i < N; ++i) {
            staging[i] = static_cast<float>((i * 7 + batch * 13) % 101);
        }
        CHECK(cudaMemcpyAsync(d_batch, staging, N * sizeof(float), cudaMemcpyHostToDevice, stream));
        accumulate<<<N / 256, 256, 0, stream>>>(d_batch, d_sum, N);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(stream));
    }
    float* sum = static_cast<float*>(std::malloc(N * sizeof(float)));
    CHECK(cudaMemcpy(sum, d_sum, N * sizeof(float), cudaMemcpyDeviceToHost));
    double total = 0;
    for (int i = 0; i < N; ++i) {
        total += sum[i];
    }
    std::printf("total %.1f\n", total);
    std::free(sum);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(d_sum));
    CHECK(cudaFree(d_batch));
    CHECK(cudaFreeHost(staging));
    return 0;
}
