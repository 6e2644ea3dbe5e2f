// Relaxes pseudo-random numbers to a fixed point and brings the result to the host, padded with zeros.
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

constexpr int STEPS = 100;
constexpr int THREADS = 256;

__global__ void clear(float* values, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        values[i] = 0.0f;
    }
}

__global__ void generate(float* values, int count, unsigned seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        unsigned bits = i * 2654435761u + seed * 40503u;
        bits ^= bits >> 15;
        bits *= 2246822519u;
        bits ^= bits >> 13;
        values[i] = 0.5f + (bits >> 8) / 16777216.0f;
    }
}

__global__ void relax(float* values, const float* sources, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        values[i] = 0.25f * values[i] + sources[i];
    }
}

__global__ void decay(const float* values, float* result, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        result[i] = expf(-values[i]);
    }
}

__global__ void pad(float* result, int count, int padded) {
    int i = count + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < padded) {
        result[i] = 0.0f;
    }
}

inline int blocks_for(int count) {
    return (count + THREADS - 1) / THREADS;
}

int main(int argc, char** argv) {
    const int count = argc > 1 ? std::atoi(argv[1]) : 4096;
    const unsigned seed = argc > 2 ? std::atoi(argv[2]) : 1;
    const int padded = count + 1024;
    float* sources = nullptr;
    float* values = nullptr;
    float* zeros = nullptr;
    CHECK(cudaMalloc(&sources, padded * sizeof(float)));
    CHECK(cudaMalloc(&values, padded * sizeof(float)));
    CHECK(cudaMalloc(&zeros, padded * sizeof(float)));

    clear<<<blocks_for(padded), THREADS>>>(zeros, padded);
    generate<<<blocks_for(count), THREADS>>>(sources, count, seed);
    CHECK(cudaMemcpy(values, zeros, padded * sizeof(float), cudaMemcpyDeviceToDevice));
    for (int step = 0; step < STEPS; ++step) {
        relax<<<blocks_for(count), THREADS>>>(values, sources, count);
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(zeros));

    float* result = nullptr;
    CHECK(cudaMalloc(&result, padded * sizeof(float)));
    decay<<<blocks_for(count), THREADS>>>(values, result, count);
    pad<<<blocks_for(padded - count), THREADS>>>(result, count, padded);
    CHECK(cudaGetLastError());
    std::vector<float> host(padded);
    CHECK(cudaMemcpy(host.data(), result, padded * sizeof(float), cudaMemcpyDeviceToHost));

    double sum = 0.0;
    for (float value : host) {
        sum += value;
    }
    std::printf("sum %.9f first %.9f last %.9f\n", sum, host[0], host[padded - 1]);
    CHECK(cudaFree(sources));
    CHECK(cudaFree(values));
    CHECK(cudaFree(result));
    return 0;
}
