// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void scanInPlace(int* data, int n) {
    __shared__ int s[512];
    const int t = threadIdx.x;
    s[t] = t < n ? data[t] : 0;
    __syncthreads();
    for (int d = 1; d < 512; d <<= 1) {
        int v = t >= d ? s[t - d] : 0;
        __syncthreads();  // only: ok
        s[t] += v;
        __syncthreads();
    }
    if (t < n) data[t] = s[t];
}
void run(int* a, int n) { scanInPlace<<<1, 512>>>(a, n); }
