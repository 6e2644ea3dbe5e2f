// code: missing-syncwarp
#include <cuda_runtime.h>

__global__ void k(const int* in, int* out) {
    __shared__ int q[4][33];
    int w = threadIdx.y, l = threadIdx.x;
    q[w][l] = in[w * 32 + l];
    __syncwarp();  // only: ok
    if (l == 0) {
        int t = 0;
        for (int i = 0; i < 32; i++) t += q[w][i];
        q[w][32] = t;
    }
    __syncwarp();  // only: ok
    out[w * 32 + l] = q[w][32] - q[w][l];
}
void run(int* a, int* b) {
    k<<<1, dim3(32, 4)>>>(a, b);
}
