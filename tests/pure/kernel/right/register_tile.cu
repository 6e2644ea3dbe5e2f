#include <cuda_runtime.h>

template <int BM, int BN, int BK, int TM, int TN> __global__ void k(const float* A, const float* B, float* C, int N) {
    __shared__ float As[BK][BM];
    __shared__ float Bs[BK][BN];
    const int threads = BM * BN / (TM * TN);
    int t = threadIdx.x;
    int tr = t / (BN / TN), tc = t % (BN / TN);
    float acc[TM][TN] = {0};
    for (int k0 = 0; k0 < N; k0 += BK) {
        for (int i = t; i < BM * BK; i += threads) As[i % BK][i / BK] = A[(i / BK) * N + k0 + i % BK];
        for (int i = t; i < BK * BN; i += threads) Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + i % BN];
        __syncthreads();
        for (int k = 0; k < BK; k++) for (int i = 0; i < TM; i++) for (int j = 0; j < TN; j++) acc[i][j] += As[k][tr * TM + i] * Bs[k][tc * TN + j];
        __syncthreads();
    }
    for (int i = 0; i < TM; i++) for (int j = 0; j < TN; j++) C[(tr * TM + i) * N + tc * TN + j] = acc[i][j];
}
void r(float* a, float* b, float* c, int n) {
    k<64, 64, 8, 4, 4><<<1, 256>>>(a, b, c, n);
}
