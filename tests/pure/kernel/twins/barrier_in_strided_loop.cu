// code: divergent-barrier
#include <cuda_runtime.h>

#define ROW 300
__global__ void rowSums(const float* in, float* out) {
    __shared__ float s[128];
    float acc = 0;
    for (int i = threadIdx.x; i < ROW; i += blockDim.x) {
        s[threadIdx.x] = in[blockIdx.x * ROW + i];
        __syncthreads();  // only: bad
        acc += s[threadIdx.x];
        __syncthreads();  // only: bad
    }
    s[threadIdx.x] = acc;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < 128; k++) acc += s[k];
        out[blockIdx.x] = acc;
    }
}
void run(float *a, float *b, int n) {
    rowSums<<<n / ROW, 128>>>(a, b);
}
