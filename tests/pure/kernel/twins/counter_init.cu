// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void compact(const int* in, int* out, int* total, int n) {
    __shared__ int count;
    __shared__ int base;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();  // only: ok
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int keep = i < n && in[i] > 0;
    int slot = 0;
    if (keep) slot = atomicAdd(&count, 1);
    __syncthreads();
    if (threadIdx.x == 0) base = atomicAdd(total, count);
    __syncthreads();
    if (keep) out[base + slot] = in[i];
}
void run(int* a, int* b, int* t, int n) { compact<<<(n + 255) / 256, 256>>>(a, b, t, n); }
