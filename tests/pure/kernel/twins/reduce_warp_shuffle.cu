// code: missing-syncthreads
#include <cuda_runtime.h>

__device__ float warpSum(float v) {
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffffu, v, o);
    return v;
}
__device__ float blockSum(float v) {
    static __shared__ float shared[32];
    int lane = threadIdx.x % 32, wid = threadIdx.x / 32;
    v = warpSum(v);
    if (lane == 0) shared[wid] = v;
    __syncthreads();  // only: ok
    v = (threadIdx.x < blockDim.x / 32) ? shared[lane] : 0.0f;
    if (wid == 0) v = warpSum(v);
    return v;
}
__global__ void total(const float* in, float* out, int n) {
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += in[i];
    sum = blockSum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}
void run(float *a, float *b, int n) {
    total<<<80, 512>>>(a, b, n);
}
