#include <cuda_runtime.h>

__global__ void k(int* g, int w) {
    __shared__ int t[17][17];
    int x = threadIdx.x;
    if (x == 0) t[0][0] = g[0];
    for (int i = 0; i < 16; i++) t[i + 1][x + 1] = g[(i + 1) * w + x + 1];
    __syncthreads();
    t[x + 1][0] = g[(x + 1) * w];
    __syncthreads();
    t[0][x + 1] = g[x + 1];
    __syncthreads();
    for (int m = 0; m < 16; m++) {
        if (x <= m) {
            int i = x + 1, j = m - x + 1;
            t[j][i] += max(t[j - 1][i - 1], max(t[j][i - 1], t[j - 1][i]));
        }
        __syncthreads();
    }
    for (int i = 0; i < 16; i++) g[(i + 1) * w + x + 1] = t[i + 1][x + 1];
}
void r(int* a, int n) {
    k<<<1,16>>>(a, n);
}
