// code: missing-syncthreads
#include <cuda_runtime.h>

#define THREADS 128
__global__ void scanBlock(const int* in, int* out, int n) {
    __shared__ int temp[2 * THREADS];
    int tid = threadIdx.x;
    int pout = 0, pin = 1;
    temp[pout * THREADS + tid] = tid > 0 && tid < n ? in[tid - 1] : 0;
    __syncthreads();
    for (int offset = 1; offset < THREADS; offset *= 2) {
        pout = 1 - pout;
        pin = 1 - pout;
        if (tid >= offset)
            temp[pout * THREADS + tid] = temp[pin * THREADS + tid] + temp[pin * THREADS + tid - offset];
        else
            temp[pout * THREADS + tid] = temp[pin * THREADS + tid];
        __syncthreads();  // only: ok
    }
    out[tid] = temp[pout * THREADS + tid];
}
void run(int* a, int* b, int n) { scanBlock<<<1, THREADS>>>(a, b, n); }
