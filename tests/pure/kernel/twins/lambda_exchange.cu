// code: missing-syncthreads
#include <cuda_runtime.h>

template <typename F>
__device__ void forEach(int n, F f) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) f(i);
}
__global__ void reverse(const float* in, float* out) {
    __shared__ float s[512];
    forEach(512, [&](int i) { s[i] = in[blockIdx.x * 512 + i]; });
    __syncthreads();  // only: ok
    forEach(512, [&](int i) { out[blockIdx.x * 512 + i] = s[511 - i]; });
}
void run(float *a, float *b, int n) {
    reverse<<<n / 512, 256>>>(a, b);
}
