// code: divergent-barrier
#include <cuda_runtime.h>
template <class F>
__device__ void onWarp(int w, F f) {
  if (threadIdx.x / 32 == w) f();
}
__global__ void stage(const float* in, float* out) {
  __shared__ float s[32];
  int t = threadIdx.x;
  onWarp(0, [&] {  // only: bad
    s[t] = in[t];  // only: bad
    __syncthreads();  // only: bad
  });  // only: bad
  onWarp(0, [&] { s[t] = in[t]; });  // only: ok
  __syncthreads();  // only: ok
  out[t] = s[t & 31];
}
int main() {
  float* in;
  cudaMalloc(&in, 32 * sizeof(float));
  cudaMemset(in, 0, 32 * sizeof(float));
  float* out;
  cudaMalloc(&out, 128 * sizeof(float));
  cudaMemset(out, 0, 128 * sizeof(float));
  stage<<<1, 128>>>(in, out);
  cudaDeviceSynchronize();
  cudaFree(in);
  cudaFree(out);
  return 0;
}
