// code: missing-syncthreads
#include <cuda_runtime.h>

template <typename T, int BX, int BY>
__global__ void blur(const T* img, T* out, int w, int h) {
    __shared__ T tile[BY + 2][BX + 2];
    int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
    for (int j = threadIdx.y; j < BY + 2; j += BY)
        for (int i = threadIdx.x; i < BX + 2; i += BX) {
            int gx = min(max((int)blockIdx.x * BX + i - 1, 0), w - 1);
            int gy = min(max((int)blockIdx.y * BY + j - 1, 0), h - 1);
            tile[j][i] = img[gy * w + gx];
        }
    __syncthreads();  // only: ok
    if (x >= w || y >= h) return;
    T sum = 0;
    for (int dy = 0; dy < 3; dy++)
        for (int dx = 0; dx < 3; dx++) sum += tile[threadIdx.y + dy][threadIdx.x + dx];
    out[y * w + x] = sum / 9;
}
void run(float* a, float* b, int w, int h) {
    dim3 block(32, 8);
    blur<float, 32, 8><<<dim3((w + 31) / 32, (h + 7) / 8), block>>>(a, b, w, h);
}
