// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void k(const double* in, double* out, int n) {
    __shared__ double s[256];
    int t = threadIdx.x;
    double acc = 0;
    int i = blockIdx.x * blockDim.x + t;
    while (i < n) {
        acc += in[i];
        i += blockDim.x * gridDim.x;
    }
    s[t] = acc;
    __syncthreads();
    int half = blockDim.x / 2;
    while (half != 0) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();  // only: ok
        half /= 2;
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
const int BS = 256;
void run(double* a, double* b, int n) {
    const int blocks = (n + BS - 1) / BS;
    k<<<blocks, BS>>>(a, b, n);
}
