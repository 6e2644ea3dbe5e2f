// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void bitonic(int* values) {
    __shared__ int s[512];
    const unsigned int tid = threadIdx.x;
    s[tid] = values[blockIdx.x * 512 + tid];
    __syncthreads();
    for (unsigned int k = 2; k <= 512; k *= 2) {
        for (unsigned int j = k / 2; j > 0; j /= 2) {
            unsigned int ixj = tid ^ j;
            if (ixj > tid) {
                if ((tid & k) == 0) {
                    if (s[tid] > s[ixj]) { int q = s[tid]; s[tid] = s[ixj]; s[ixj] = q; }
                } else {
                    if (s[tid] < s[ixj]) { int q = s[tid]; s[tid] = s[ixj]; s[ixj] = q; }
                }
            }
            __syncthreads();  // only: ok
        }
    }
    values[blockIdx.x * 512 + tid] = s[tid];
}
void run(int* a, int n) { bitonic<<<n / 512, 512>>>(a); }
