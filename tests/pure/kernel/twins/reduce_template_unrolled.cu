// code: missing-syncthreads
#include <cuda_runtime.h>

template <unsigned int blockSize>
__global__ void reduce(const int* g, int* o, unsigned int n) {
    extern __shared__ int sdata[];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * blockSize * 2 + tid;
    unsigned int step = blockSize * 2 * gridDim.x;
    int mine = 0;
    while (i < n) {
        mine += g[i];
        if (i + blockSize < n) mine += g[i + blockSize];
        i += step;
    }
    sdata[tid] = mine;
    __syncthreads();  // only: ok
    if (blockSize >= 512) { if (tid < 256) sdata[tid] = mine = mine + sdata[tid + 256]; __syncthreads(); }
    if (blockSize >= 256) { if (tid < 128) sdata[tid] = mine = mine + sdata[tid + 128]; __syncthreads(); }
    if (blockSize >= 128) { if (tid < 64) sdata[tid] = mine = mine + sdata[tid + 64]; __syncthreads(); }
    if (tid < 32) {
        mine += sdata[tid + 32];
        for (int offset = 16; offset > 0; offset >>= 1) mine += __shfl_down_sync(0xffffffff, mine, offset);
    }
    if (tid == 0) o[blockIdx.x] = mine;
}
void run(int* a, int* b, unsigned int n, int threads) {
    switch (threads) {
    case 512: reduce<512><<<64, 512, 512 * sizeof(int)>>>(a, b, n); break;
    case 256: reduce<256><<<64, 256, 256 * sizeof(int)>>>(a, b, n); break;
    case 128: reduce<128><<<64, 128, 128 * sizeof(int)>>>(a, b, n); break;
    }
}
