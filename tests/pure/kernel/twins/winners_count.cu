// code: missing-atomic
#include <cuda_runtime.h>
__global__ void bfs(const int* ptr, const int* adj, const int* front, int fn, int* dist, int* nextf, int* nn, int lvl) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= fn) return;
  int v = front[i];
  for (int e = ptr[v]; e < ptr[v + 1]; ++e) {
    int u = adj[e];
    if (atomicCAS(&dist[u], -1, lvl) == -1) {
      int pos = (*nn)++;  // only: bad
      int pos = atomicAdd(nn, 1);  // only: ok
      nextf[pos] = u;
    }
  }
}
int main() {
  int* ptr;
  cudaMalloc(&ptr, 1025 * sizeof(int));
  cudaMemset(ptr, 0, 1025 * sizeof(int));
  int* adj;
  cudaMalloc(&adj, 8192 * sizeof(int));
  cudaMemset(adj, 0, 8192 * sizeof(int));
  int* front;
  cudaMalloc(&front, 1024 * sizeof(int));
  cudaMemset(front, 0, 1024 * sizeof(int));
  int* dist;
  cudaMalloc(&dist, 1024 * sizeof(int));
  cudaMemset(dist, 0, 1024 * sizeof(int));
  int* nextf;
  cudaMalloc(&nextf, 1024 * sizeof(int));
  cudaMemset(nextf, 0, 1024 * sizeof(int));
  int* nn;
  cudaMalloc(&nn, 1 * sizeof(int));
  cudaMemset(nn, 0, 1 * sizeof(int));
  bfs<<<8, 256>>>(ptr, adj, front, 1024, dist, nextf, nn, 1);
  cudaDeviceSynchronize();
  cudaFree(ptr);
  cudaFree(adj);
  cudaFree(front);
  cudaFree(dist);
  cudaFree(nextf);
  cudaFree(nn);
  return 0;
}
