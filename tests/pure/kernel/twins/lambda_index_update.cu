// code: missing-atomic
#include <cuda_runtime.h>
__global__ void deposit(const float2* p, float* rho, int n, int nx) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  auto add = [&](int c, float w) { rho[c] += w; };  // only: bad
  auto add = [&](int c, float w) { atomicAdd(&rho[c], w); };  // only: ok
  if (i < n) {
    int cx = (int)p[i].x, cy = (int)p[i].y;
    float fx = p[i].x - cx;
    add(cy * nx + cx, 1 - fx);
    add(cy * nx + cx + 1, fx);
  }
}
int main() {
  float2* p;
  cudaMalloc(&p, 4096 * sizeof(float2));
  cudaMemset(p, 0, 4096 * sizeof(float2));
  float* rho;
  cudaMalloc(&rho, 4096 * sizeof(float));
  cudaMemset(rho, 0, 4096 * sizeof(float));
  deposit<<<16, 256>>>(p, rho, 4096, 64);
  cudaDeviceSynchronize();
  cudaFree(p);
  cudaFree(rho);
  return 0;
}
