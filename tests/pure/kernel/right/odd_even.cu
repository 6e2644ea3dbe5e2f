#include <cuda_runtime.h>

__global__ void k(int* a) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = a[t];
    __syncthreads();
    for (int p = 0; p < 256; p++) {
        if (t % 2 == p % 2 && t + 1 < 256) {
            if (s[t] > s[t + 1]) {
                int q = s[t];
                s[t] = s[t + 1];
                s[t + 1] = q;
            }
        }
        __syncthreads();
    }
    a[t] = s[t];
}
void r(int* a) {
    k<<<1,256>>>(a);
}
