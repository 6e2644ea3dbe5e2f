// code: missing-syncthreads
#include <cuda_runtime.h>

struct Smem {
    float a[256];
    int n;
};
__global__ void k(const float* in, float* out) {
    __shared__ Smem sh;
    int t = threadIdx.x;
    sh.a[t] = in[t];
    if (t == 0) sh.n = 3;
    __syncthreads();  // only: ok
    out[t] = sh.a[255 - t] * sh.n;
}
void run(float* a, float* b) {
    k<<<1,256>>>(a,b);
}
