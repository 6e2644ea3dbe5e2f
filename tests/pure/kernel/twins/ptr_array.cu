// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void k(float* u, int steps) {
    __shared__ float a[128], b[128];
    float* buf[2] = {a, b};
    int t = threadIdx.x;
    buf[0][t] = u[t];
    __syncthreads();
    for (int s = 0; s < steps; s++) {
        buf[(s + 1) & 1][t] = buf[s & 1][(t + 1) % 128];
        __syncthreads();  // only: ok
    }
    u[t] = buf[steps & 1][t];
}
void run(float* a) {
    k<<<1, 128>>>(a, 100);
}
