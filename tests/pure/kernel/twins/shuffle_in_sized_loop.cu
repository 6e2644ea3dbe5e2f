// code: bad-warp-mask
#include <cuda_runtime.h>
__global__ void sumAll(const float* in, float* out, int n) {
  float acc = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {  // only: bad
    float v = in[i];  // only: bad
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);  // only: bad
    acc += v;  // only: bad
  }  // only: bad
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) acc += in[i];  // only: ok
  for (int o = 16; o > 0; o >>= 1) acc += __shfl_xor_sync(0xffffffffu, acc, o);  // only: ok
  if ((threadIdx.x & 31) == 0) atomicAdd(out, acc);
}
int main() {
  float* in;
  cudaMalloc(&in, 5000 * sizeof(float));
  cudaMemset(in, 0, 5000 * sizeof(float));
  float* out;
  cudaMalloc(&out, 1 * sizeof(float));
  cudaMemset(out, 0, 1 * sizeof(float));
  sumAll<<<8, 256>>>(in, out, 5000);
  cudaDeviceSynchronize();
  cudaFree(in);
  cudaFree(out);
  return 0;
}
