// code: divergent-barrier
#include <cuda_runtime.h>

__global__ void k(float* a) {
    __shared__ float s[96];
    int role = threadIdx.x / 32;
    s[threadIdx.x] = a[threadIdx.x];
    switch (role) {
        case 0: s[threadIdx.x] *= 2;
        __syncthreads();  // only: bad
        break;
        default: s[threadIdx.x] += 1;
        break;
    }
    __syncthreads();
    a[threadIdx.x] = s[95 - threadIdx.x];
}
void run(float* a) {
    k<<<1, 96>>>(a);
}
