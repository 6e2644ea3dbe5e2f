// code: missing-threadfence
#include <cuda_runtime.h>

__device__ volatile int box[128];
__device__ volatile int full;

__global__ void hand(const int* in, int* out) {
    if (blockIdx.x == 0) {
        box[threadIdx.x] = in[threadIdx.x];
        __threadfence();  // only: ok
        __syncthreads();
        if (threadIdx.x == 0) full = 1;
    } else {
        if (threadIdx.x == 0) {
            while (full == 0) {
            }
            __threadfence();
        }
        __syncthreads();
        out[threadIdx.x] = box[threadIdx.x];
    }
}
void run(int* a, int* b) { hand<<<2, 128>>>(a, b); }
