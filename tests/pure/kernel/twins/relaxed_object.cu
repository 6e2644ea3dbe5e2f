// code: missing-threadfence
#include <cuda_runtime.h>
#include <cuda/atomic>
__global__ void mailbox(int* box, int* flag, int* out) {
  cuda::atomic_ref<int, cuda::thread_scope_device> f(*flag);
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      *box = 42;
      f.store(1, cuda::memory_order_relaxed);  // only: bad
      f.store(1, cuda::memory_order_release);  // only: ok
    }
  } else if (threadIdx.x == 0) {
    while (f.load(cuda::memory_order_relaxed) == 0) {}  // only: bad
    while (f.load(cuda::memory_order_acquire) == 0) {}  // only: ok
    out[blockIdx.x] = *box;
  }
}
int main() {
  int* box;
  cudaMalloc(&box, 1 * sizeof(int));
  cudaMemset(box, 0, 1 * sizeof(int));
  int* flag;
  cudaMalloc(&flag, 1 * sizeof(int));
  cudaMemset(flag, 0, 1 * sizeof(int));
  int* out;
  cudaMalloc(&out, 4 * sizeof(int));
  cudaMemset(out, 0, 4 * sizeof(int));
  mailbox<<<4, 32>>>(box, flag, out);
  cudaDeviceSynchronize();
  cudaFree(box);
  cudaFree(flag);
  cudaFree(out);
  return 0;
}
