// code: missing-async-wait
#include <cuda_runtime.h>
#include <cuda/pipeline>
#include <cooperative_groups.h>
__global__ void pipe(const int* in, int* out, int batches) {
  __shared__ int s[2][64];
  auto blk = cooperative_groups::this_thread_block();
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> st;
  auto p = cuda::make_pipeline(blk, &st);
  p.producer_acquire();
  cuda::memcpy_async(blk, s[0], in, sizeof(int) * 64, p);
  p.producer_commit();
  for (int b = 1; b <= batches; ++b) {
    if (b < batches) {
      p.producer_acquire();
      cuda::memcpy_async(blk, s[b & 1], in + b * 64, sizeof(int) * 64, p);
      p.producer_commit();
    }
    p.consumer_wait();  // only: ok
    blk.sync();  // only: bad
    out[(b - 1) * 64 + threadIdx.x] = s[(b - 1) & 1][63 - threadIdx.x];
    p.consumer_release();  // only: ok
    blk.sync();  // only: bad
  }
}
int main() {
  int* in;
  cudaMalloc(&in, 1024 * sizeof(int));
  cudaMemset(in, 0, 1024 * sizeof(int));
  int* out;
  cudaMalloc(&out, 1024 * sizeof(int));
  cudaMemset(out, 0, 1024 * sizeof(int));
  pipe<<<1, 64>>>(in, out, 16);
  cudaDeviceSynchronize();
  cudaFree(in);
  cudaFree(out);
  return 0;
}
