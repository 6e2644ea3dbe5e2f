#include <cuda_runtime.h>

__global__ void k(int* a, int n) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = a[t];
    int go = 1;
    while (__syncthreads_or(go)) {
        int v = s[(t + 1) % 128];
        __syncthreads();
        go = v < s[t];
        if (go) s[t] = v;
    }
    a[t] = s[t];
}
void r(int* a, int n) {
    k<<<1,128>>>(a, n);
}
