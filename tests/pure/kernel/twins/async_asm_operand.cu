// code: missing-async-wait
#include <cuda_runtime.h>
__device__ __forceinline__ void cpAsync16(void* s, const void* g) {
  unsigned a = static_cast<unsigned>(__cvta_generic_to_shared(s));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(a), "l"(g));
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ __forceinline__ void waitGroup() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }
__global__ void gemv(const float4* A, const float* x, float* y) {
  __shared__ float4 s[2][128];
  int t = threadIdx.x;
  float acc = 0;
  cpAsync16(&s[0][t], A + blockIdx.x * 1024 + t);
  commit();
  for (int k = 0; k < 8; ++k) {
    if (k < 7) cpAsync16(&s[(k + 1) % 2][t], A + blockIdx.x * 1024 + (k + 1) * 128 + t);
    commit();
    waitGroup<2>();  // only: bad
    waitGroup<1>();  // only: ok
    __syncthreads();
    float4 v = s[k % 2][(t + 1) % 128];
    acc += v.x * x[k];
    __syncthreads();
  }
  y[blockIdx.x * 128 + t] = acc;
}
int main() {
  float4* A;
  cudaMalloc(&A, 4096 * sizeof(float4));
  cudaMemset(A, 0, 4096 * sizeof(float4));
  float* x;
  cudaMalloc(&x, 8 * sizeof(float));
  cudaMemset(x, 0, 8 * sizeof(float));
  float* y;
  cudaMalloc(&y, 512 * sizeof(float));
  cudaMemset(y, 0, 512 * sizeof(float));
  gemv<<<4, 128>>>(A, x, y);
  cudaDeviceSynchronize();
  cudaFree(A);
  cudaFree(x);
  cudaFree(y);
  return 0;
}
