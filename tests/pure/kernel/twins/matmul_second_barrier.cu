// code: missing-syncthreads
#include <cuda_runtime.h>

template <int TILE>
__global__ void gemm(const float* A, const float* B, float* C, int N) {
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.f;
    for (int m = 0; m < (N + TILE - 1) / TILE; ++m) {
        int k = m * TILE;
        As[threadIdx.y][threadIdx.x] = (row < N && k + threadIdx.x < N) ? A[row * N + k + threadIdx.x] : 0.f;
        Bs[threadIdx.y][threadIdx.x] = (col < N && k + threadIdx.y < N) ? B[(k + threadIdx.y) * N + col] : 0.f;
        __syncthreads();
#pragma unroll
        for (int e = 0; e < TILE; ++e) sum += As[threadIdx.y][e] * Bs[e][threadIdx.x];
        __syncthreads();  // only: ok
    }
    if (row < N && col < N) C[row * N + col] = sum;
}
void run(float* a, float* b, float* c, int n) {
    dim3 block(16, 16), grid((n + 15) / 16, (n + 15) / 16);
    gemm<16><<<grid, block>>>(a, b, c, n);
}
