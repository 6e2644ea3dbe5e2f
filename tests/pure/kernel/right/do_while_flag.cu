#include <cuda_runtime.h>

__global__ void k(int* d, int n) {
    __shared__ bool again;
    int t = threadIdx.x;
    do {
        __syncthreads();
        if (t == 0) again = false;
        __syncthreads();
        if (t + 1 < n && d[t] > d[t + 1]) {
            d[t] = d[t + 1];
            again = true;
        }
        __syncthreads();
} while (again);
}
void r(int* a, int n) {
    k<<<1,128>>>(a, n);
}
