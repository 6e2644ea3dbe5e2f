// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void histogram64(const int* keys, int* out, int n) {
    extern __shared__ int h[];
    h[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(h + (keys[i] & 63), 1);
    __syncthreads();  // only: ok
    if (threadIdx.x < 64) atomicAdd(out + threadIdx.x, h[threadIdx.x]);
}
void run(int* a, int* b, int n) { histogram64<<<32, 64, 64 * sizeof(int)>>>(a, b, n); }
