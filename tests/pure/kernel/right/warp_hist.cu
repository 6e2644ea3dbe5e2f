#include <cuda_runtime.h>

__global__ void k(const unsigned char* d, int* o, int n) {
    __shared__ int h[8][256];
    int w = threadIdx.x / 32;
    for (int i = threadIdx.x; i < 8 * 256; i += blockDim.x) ((int*)h)[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&h[w][d[i]], 1);
    __syncthreads();
    int s = 0;
    for (int q = 0; q < 8; q++) s += h[q][threadIdx.x];
    atomicAdd(o + threadIdx.x, s);
}
void r(unsigned char* a, int* b, int n) {
    k<<<64,256>>>(a, b, n);
}
