// code: missing-async-wait
#include <cuda_runtime.h>

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
__global__ void stageIn(const int* in, int* out, int n) {
    extern __shared__ int s[];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, in + blockIdx.x * n, sizeof(int) * n);
    cg::wait(block);  // only: ok
    block.sync();  // only: bad
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = s[n - 1 - i];
}
void run(int* a, int* b, int n) { stageIn<<<16, 128, n * sizeof(int)>>>(a, b, n); }
