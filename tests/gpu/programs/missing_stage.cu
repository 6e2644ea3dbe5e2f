// Normalises the rows of a matrix on a stream. The host function that does it is not there yet: what it does, the function above it says.
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

// Divides each row by its largest element, and says on the host which that is.
void normalise_cpu(const float* x, float* y, float* largest, int rows, int columns) {
    for (int row = 0; row < rows; ++row) {
        float most = x[row * columns];
        for (int k = 1; k < columns; ++k) {
            if (x[row * columns + k] > most) {
                most = x[row * columns + k];
            }
        }
        largest[row] = most;
        for (int k = 0; k < columns; ++k) {
            y[row * columns + k] = x[row * columns + k] / most;
        }
    }
}

// stitchcuda: implement reference=normalise_cpu host=largest[rows] : each row of y is that of x divided by its largest element
cudaError_t normalise(const float* x, float* y, float* largest, int rows, int columns, cudaStream_t stream);

int main() {
    const int rows = 2048, columns = 700;
    std::vector<float> x(rows * columns), y(rows * columns), largest(rows);
    for (int i = 0; i < rows * columns; ++i) {
        x[i] = 1.0f + static_cast<float>((i * 7919) % 1009) / 97.0f;
    }
    float *dx = nullptr, *dy = nullptr;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&dx, x.size() * sizeof(float)));
    CHECK(cudaMalloc(&dy, y.size() * sizeof(float)));
    CHECK(cudaMemcpyAsync(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice, stream));
    double sum = 0;
    for (int step = 0; step < 3; ++step) {
        CHECK(normalise(dx, dy, largest.data(), rows - step, columns, stream));
        for (int row = 0; row < rows - step; ++row) {
            sum += largest[row];
        }
    }
    CHECK(cudaMemcpyAsync(y.data(), dy, y.size() * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < rows * columns; ++i) {
        sum += y[i];
    }
    std::printf("sum %.9g\n", sum);
    CHECK(cudaFree(dx));
    CHECK(cudaFree(dy));
    CHECK(cudaStreamDestroy(stream));
}
