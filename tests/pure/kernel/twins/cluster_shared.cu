// code: missing-syncthreads
#include <cooperative_groups.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2, 1, 1) swapped(const int* in, int* out, int rounds) {
    __shared__ int s[128];
    cg::cluster_group cluster = cg::this_cluster();
    int* other = cluster.map_shared_rank(s, cluster.block_rank() ^ 1);
    for (int r = 0; r < rounds; ++r) {
        s[threadIdx.x] = in[(r * gridDim.x + blockIdx.x) * 128 + threadIdx.x];
        cluster.sync();  // only: ok
        __syncthreads();  // only: bad
        out[(r * gridDim.x + blockIdx.x) * 128 + threadIdx.x] = other[127 - threadIdx.x];
        cluster.sync();
    }
}
void run(int* a, int* b) { swapped<<<32, 128>>>(a, b, 9); }
