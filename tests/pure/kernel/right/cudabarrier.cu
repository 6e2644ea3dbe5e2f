#include <cuda_runtime.h>

#include <cuda/barrier>
__global__ void k(float* a) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ float s[64];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    s[threadIdx.x] = a[threadIdx.x];
    bar.arrive_and_wait();
    a[threadIdx.x] = s[63 - threadIdx.x];
}
void r(float* a) {
    k<<<1,64>>>(a);
}
