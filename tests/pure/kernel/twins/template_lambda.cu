// code: missing-syncthreads
#include <cuda_runtime.h>

template <int N, typename Op> __device__ float fold(float v, float (&s)[N], Op op) {
    s[threadIdx.x] = v;
    __syncthreads();  // only: ok
    for (int h = N / 2; h > 0; h /= 2) {
        if (threadIdx.x < h) s[threadIdx.x] = op(s[threadIdx.x], s[threadIdx.x + h]);
        __syncthreads();
    }
    return s[0];
}
__global__ void k(const float* in, float* out) {
    __shared__ float s[256];
    float m = fold(in[threadIdx.x], s, [](float a, float b) { return a > b ? a : b; });
    if (threadIdx.x == 0) out[0] = m;
}
void run(float* a, float* b) {
    k<<<1, 256>>>(a, b);
}
