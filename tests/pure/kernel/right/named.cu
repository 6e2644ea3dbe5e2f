#include <cuda_runtime.h>

__global__ void k(float* a) {
    __shared__ float s[64];
    if (threadIdx.x < 32) {
        s[threadIdx.x] = a[threadIdx.x];
        asm volatile("bar.sync 1, 64;");
} else {
        asm volatile("bar.sync 1, 64;");
        a[threadIdx.x] = s[threadIdx.x - 32];
    }
}
void r(float* a) {
    k<<<1,64>>>(a);
}
