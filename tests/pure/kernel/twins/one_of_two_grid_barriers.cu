// code: missing-grid-sync
#include <cuda_runtime.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void jac(float* a, float* b, int n, int iters) {
  cg::grid_group grid = cg::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < iters; ++k) {
    if (i > 0 && i < n - 1) b[i] = 0.5f * (a[i - 1] + a[i + 1]);
    grid.sync();  // only: ok
    __syncthreads();  // only: bad
    if (i > 0 && i < n - 1) a[i] = 0.5f * (b[i - 1] + b[i + 1]);
    grid.sync();
  }
}
int main() {
  float* a;
  cudaMalloc(&a, 4096 * sizeof(float));
  cudaMemset(a, 0, 4096 * sizeof(float));
  float* b;
  cudaMalloc(&b, 4096 * sizeof(float));
  cudaMemset(b, 0, 4096 * sizeof(float));
  int k1_2 = 4096;
  int k1_3 = 10;
  void* args1[] = {&a, &b, &k1_2, &k1_3};
  cudaLaunchCooperativeKernel((void*)jac, dim3(32), dim3(128), args1, 0, 0);
  cudaDeviceSynchronize();
  cudaFree(a);
  cudaFree(b);
  return 0;
}
