// code: divergent-barrier
#include <cuda_runtime.h>

__device__ void publish(float* s, float v) {
    s[threadIdx.x] = v;
    __syncthreads();
}
__global__ void gather(const float* in, float* out, const int* flag) {
    __shared__ float s[64];
    float v = in[blockIdx.x * 64 + threadIdx.x];
    if (flag[threadIdx.x] != 0)  // only: bad
    if (flag[blockIdx.x] != 0)  // only: ok
        publish(s, v);
    out[blockIdx.x * 64 + threadIdx.x] = v;
}
void run(float* a, float* b, int* f) { gather<<<100, 64>>>(a, b, f); }
