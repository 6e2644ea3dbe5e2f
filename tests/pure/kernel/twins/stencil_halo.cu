// code: missing-syncthreads
#include <cuda_runtime.h>

#define RADIUS 3
#define BLOCK 256
__global__ void stencil(const int* in, int* out) {
    __shared__ int temp[BLOCK + 2 * RADIUS];
    int g = threadIdx.x + blockIdx.x * blockDim.x + RADIUS;
    int l = threadIdx.x + RADIUS;
    temp[l] = in[g];
    if (threadIdx.x < RADIUS) {
        temp[l - RADIUS] = in[g - RADIUS];
        temp[l + BLOCK] = in[g + BLOCK];
    }
    __syncthreads();  // only: ok
    int result = 0;
    for (int o = -RADIUS; o <= RADIUS; o++) result += temp[l + o];
    out[g] = result;
}
void run(int* a, int* b, int n) { stencil<<<n / BLOCK, BLOCK>>>(a, b); }
