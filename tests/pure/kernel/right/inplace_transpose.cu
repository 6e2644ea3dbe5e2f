#include <cuda_runtime.h>

__global__ void k(float* a, int n) {
    __shared__ float p[16][17], q[16][17];
    int x = threadIdx.x, y = threadIdx.y;
    int bx = blockIdx.x * 16, by = blockIdx.y * 16;
    if (blockIdx.y > blockIdx.x) {
        p[y][x] = a[(by + y) * n + bx + x];
        q[y][x] = a[(bx + y) * n + by + x];
        __syncthreads();
        a[(by + y) * n + bx + x] = q[x][y];
        a[(bx + y) * n + by + x] = p[x][y];
} else if (blockIdx.y == blockIdx.x) {
        p[y][x] = a[(by + y) * n + bx + x];
        __syncthreads();
        a[(by + y) * n + bx + x] = p[x][y];
    }
}
void r(float* a, int n) {
    k<<<dim3(n/16,n/16), dim3(16,16)>>>(a, n);
}
