// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void softmax(const float* x, float* y, int cols) {
    extern __shared__ float buf[];
    const float* row = x + blockIdx.x * cols;
    float m = -1e30f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) m = fmaxf(m, row[i]);
    buf[threadIdx.x] = m;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) buf[threadIdx.x] = fmaxf(buf[threadIdx.x], buf[threadIdx.x + s]);
        __syncthreads();
    }
    m = buf[0];
    __syncthreads();  // only: ok
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(row[i] - m);
    buf[threadIdx.x] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) buf[threadIdx.x] += buf[threadIdx.x + s];
        __syncthreads();
    }
    sum = buf[0];
    for (int i = threadIdx.x; i < cols; i += blockDim.x) y[blockIdx.x * cols + i] = expf(row[i] - m) / sum;
}
void run(float* a, float* b, int rows, int cols) { softmax<<<rows, 256, 256 * sizeof(float)>>>(a, b, cols); }
