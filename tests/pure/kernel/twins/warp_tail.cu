// code: missing-syncwarp
#include <cuda_runtime.h>

__global__ void lastWarp(const int* in, int* out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * 64 + t];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32];
        __syncwarp();  // only: ok
        for (int d = 16; d > 0; d >>= 1) {
            int other = t < d ? s[t + d] : 0;
            __syncwarp();  // only: ok
            if (t < d) s[t] += other;
            __syncwarp();  // only: ok
        }
        if (t == 0) out[blockIdx.x] = s[0];
    }
}
void run(int* a, int* b, int n) { lastWarp<<<n / 64, 64>>>(a, b); }
