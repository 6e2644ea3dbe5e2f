// code: missing-threadfence
#include <cuda_runtime.h>

__global__ void offsets(const int* counts, int* starts, volatile int* sums, int* ready, int* next) {
    __shared__ int tile;
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        int before = 0;
        if (tile > 0) {
            while (atomicAdd(&ready[tile - 1], 0) == 0) {
            }
            __threadfence();
            before = sums[tile - 1];
        }
        sums[tile] = before + counts[tile];
        __threadfence();  // only: ok
        atomicExch(&ready[tile], 1);
        starts[tile] = before;
    }
}
void run(int* a, int* b, int* c, int* d, int* e) { offsets<<<200, 64>>>(a, b, c, d, e); }
