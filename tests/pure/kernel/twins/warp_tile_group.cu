// code: missing-syncwarp
#include <cuda_runtime.h>

#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void tiles(const int* in, int* out) {
    __shared__ int s[256];
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int* mine = s + tile.meta_group_rank() * 16;
    mine[tile.thread_rank()] = in[blockIdx.x * 256 + threadIdx.x];
    tile.sync();  // only: ok
    out[blockIdx.x * 256 + threadIdx.x] = mine[15 - tile.thread_rank()];
}
void run(int* a, int* b, int n) { tiles<<<n / 256, 256>>>(a, b); }
