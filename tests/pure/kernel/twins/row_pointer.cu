// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void columns(const float* in, float* out) {
    __shared__ float s[2][32][33];
    float(*rows)[33] = s[threadIdx.y / 16];
    const float(*same)[33] = s[threadIdx.y / 16];
    float(&first)[33] = s[threadIdx.y / 16][0];
    int y = threadIdx.y % 16;
    rows[y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    rows[y + 16][threadIdx.x] = 1;
    __syncthreads();  // only: ok
    out[threadIdx.y * 32 + threadIdx.x] = same[threadIdx.x][y] + first[31 - threadIdx.x];
}
void run(float* a, float* b) { columns<<<1, dim3(32, 32)>>>(a, b); }
