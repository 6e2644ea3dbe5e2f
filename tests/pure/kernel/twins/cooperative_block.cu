// code: missing-syncthreads
#include <cuda_runtime.h>

#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ int reduceGroup(cg::thread_group g, int* temp, int val) {
    int lane = g.thread_rank();
    for (int i = g.size() / 2; i > 0; i /= 2) {
        temp[lane] = val;
        g.sync();
        if (lane < i) val += temp[lane + i];
        g.sync();
    }
    return val;
}
__global__ void stage(int* data) {
    __shared__ int s[128], t[128];
    cg::thread_block block = cg::this_thread_block();
    int rank = block.thread_rank();
    s[rank] = data[rank];
    block.sync();  // only: ok
    data[rank] = s[127 - rank] + reduceGroup(block, t, rank);
}
void run(int* a) { stage<<<1, 128>>>(a); }
