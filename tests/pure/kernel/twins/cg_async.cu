// code: missing-async-wait
#include <cuda_runtime.h>

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
__global__ void k(const float* in, float* out) {
    __shared__ float s[2][256];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, s[0], in, sizeof(float) * 256);
    cg::memcpy_async(block, s[1], in + 256, sizeof(float) * 256);
    cg::wait_prior<1>(block);  // only: bad
    cg::wait(block);  // only: ok
    out[threadIdx.x] = s[0][255 - threadIdx.x] + s[1][255 - threadIdx.x];
}
void run(float* a, float* b) {
    k<<<1, 256>>>(a, b);
}
