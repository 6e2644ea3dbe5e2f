// code: divergent-barrier
#include <cuda_runtime.h>

struct Picture {
    int width, height;
    __device__ bool holds(int x, int y) const { return x >= 0 && x < width && y >= 0 && y < height; }
};
__global__ void sums(const int* in, int* out, Picture p, int rounds) {
    __shared__ int s[16][16];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    for (int r = 0; r < rounds; ++r) {
        s[threadIdx.y][threadIdx.x] = p.holds(x, y) ? in[y * p.width + x] : 0;
        __syncthreads();
        int mirrored = s[15 - threadIdx.y][15 - threadIdx.x];
        __syncthreads();
        if (!p.holds(x, y)) continue;  // only: ok
        if (!p.holds(x, y)) break;  // only: bad
        out[y * p.width + x] += mirrored + r;
    }
}
void run(int* a, int* b, Picture p) { sums<<<dim3(9, 9), dim3(16, 16)>>>(a, b, p, 5); }
