// code: missing-syncthreads
#include <cuda_runtime.h>

#define BARRIER() __syncthreads()
#define SHARED(T, name, n) __shared__ T name[n]
#define PUT(i, v) cache[i] = (v)
__global__ void shift(const float* in, float* out, int n) {
    SHARED(float, cache, 256);
    PUT(threadIdx.x, in[blockIdx.x * 256 + threadIdx.x]);
    BARRIER();  // only: ok
    out[blockIdx.x * 256 + threadIdx.x] = cache[(threadIdx.x + 64) % 256];
}
void run(float *a, float *b, int n) {
    shift<<<n / 256, 256>>>(a, b, n);
}
