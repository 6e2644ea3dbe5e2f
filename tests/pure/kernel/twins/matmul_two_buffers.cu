// code: missing-syncthreads
#include <cuda_runtime.h>

constexpr int T = 16;
__global__ void gemmDouble(const float* __restrict__ a, const float* __restrict__ b, float* c, int n) {
    __shared__ float sa[2][T][T + 1];
    __shared__ float sb[2][T][T + 1];
    const int x = threadIdx.x, y = threadIdx.y;
    const int r = blockIdx.y * T + y, q = blockIdx.x * T + x;
    float acc = 0;
    int cur = 0;
    sa[0][y][x] = a[r * n + x];
    sb[0][y][x] = b[y * n + q];
    __syncthreads();
    for (int t = T; t < n; t += T) {
        sa[cur ^ 1][y][x] = a[r * n + t + x];
        sb[cur ^ 1][y][x] = b[(t + y) * n + q];
        for (int k = 0; k < T; k++) acc += sa[cur][y][k] * sb[cur][k][x];
        __syncthreads();  // only: ok
        cur ^= 1;
    }
    for (int k = 0; k < T; k++) acc += sa[cur][y][k] * sb[cur][k][x];
    c[r * n + q] = acc;
}
void run(float* a, float* b, float* c, int n) { gemmDouble<<<dim3(n / T, n / T), dim3(T, T)>>>(a, b, c, n); }
