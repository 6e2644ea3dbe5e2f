// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void prescan(float* g, int n) {
    extern __shared__ float temp[];
    int thid = threadIdx.x;
    int offset = 1;
    temp[2 * thid] = g[2 * thid];
    temp[2 * thid + 1] = g[2 * thid + 1];
    for (int d = 512 >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (thid < d) {
            int ai = offset * (2 * thid + 1) - 1;
            int bi = offset * (2 * thid + 2) - 1;
            temp[bi] += temp[ai];
        }
        offset *= 2;
    }
    if (thid == 0) temp[511] = 0;
    for (int d = 1; d < 512; d *= 2) {
        offset >>= 1;
        __syncthreads();  // only: ok
        if (thid < d) {
            int ai = offset * (2 * thid + 1) - 1;
            int bi = offset * (2 * thid + 2) - 1;
            float t = temp[ai];
            temp[ai] = temp[bi];
            temp[bi] += t;
        }
    }
    __syncthreads();
    g[2 * thid] = temp[2 * thid];
    g[2 * thid + 1] = temp[2 * thid + 1];
}
void run(float* a, int n) { prescan<<<1, 256, 512 * sizeof(float)>>>(a, n); }
