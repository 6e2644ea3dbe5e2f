// code: divergent-barrier
#include <cuda_runtime.h>

__global__ void differences(const float* in, float* out, int n) {
    __shared__ float s[129];
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) {  // only: bad
        s[threadIdx.x] = i < n ? in[i] : 0;
        if (threadIdx.x == 127) s[128] = i + 1 < n ? in[i + 1] : 0;
        __syncthreads();
        if (i < n) out[i] = s[threadIdx.x + 1] - s[threadIdx.x];
    }  // only: bad
}
void run(float* a, float* b, int n) { differences<<<(n + 127) / 128, 128>>>(a, b, n); }
