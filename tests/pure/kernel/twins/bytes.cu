// code: missing-syncthreads
#include <cuda_runtime.h>

__global__ void k(const float* in, const int* key, float* out) {
    extern __shared__ __align__(16) unsigned char raw[];
    float* v = reinterpret_cast<float*>(raw);
    int* id = reinterpret_cast<int*>(raw + 128 * sizeof(float));
    int t = threadIdx.x;
    v[t] = in[t];
    id[t] = key[t];
    __syncthreads();  // only: ok
    out[t] = v[127 - t] + id[(t + 32) % 128];
}
void run(float* a, int* q, float* b) {
    k<<<1, 128, 128 * (sizeof(float) + sizeof(int))>>>(a, q, b);
}
