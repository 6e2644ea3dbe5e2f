// code: missing-async-wait
#include <cuda_runtime.h>

__global__ void asmCopy(const float* in, float* out) {
    __shared__ float s[128];
    unsigned int to = (unsigned int)__cvta_generic_to_shared(&s[threadIdx.x]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(to), "l"(in + threadIdx.x));
    asm volatile("cp.async.commit_group;\n" ::);
    asm volatile("cp.async.wait_group 0;\n" ::);  // only: ok
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 64];
}
void run(float* a, float* b) { asmCopy<<<1, 128>>>(a, b); }
