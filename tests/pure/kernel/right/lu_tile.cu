#include <cuda_runtime.h>

#define B 16
__global__ void k(float* m, int dim, int off) {
    __shared__ float s[B][B];
    int t = threadIdx.x;
    for (int i = 0; i < B; i++) s[i][t] = m[(off + i) * dim + off + t];
    __syncthreads();
    for (int i = 0; i < B - 1; i++) {
        if (t > i) {
            for (int j = 0; j < i; j++) s[t][i] -= s[t][j] * s[j][i];
            s[t][i] /= s[i][i];
        }
        __syncthreads();
        if (t > i) {
            for (int j = 0; j < i + 1; j++) s[i + 1][t] -= s[i + 1][j] * s[j][t];
        }
        __syncthreads();
    }
    for (int i = 1; i < B; i++) m[(off + i) * dim + off + t] = s[i][t];
}
void r(float* a, int n) {
    k<<<1,B>>>(a, n, 0);
}
