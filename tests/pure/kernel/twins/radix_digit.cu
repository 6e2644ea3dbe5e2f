// code: missing-syncthreads
#include <cuda_runtime.h>

constexpr int R = 256;
__device__ int exclusiveScan(int value, int* s) {
    int t = threadIdx.x;
    s[t] = value;
    __syncthreads();
    for (int d = 1; d < R; d *= 2) {
        int add = t >= d ? s[t - d] : 0;
        __syncthreads();
        s[t] += add;
        __syncthreads();
    }
    int result = s[t] - value;
    return result;
}
__global__ void splitBit(unsigned int* keys, int bit) {
    __shared__ int scan[R];
    __shared__ unsigned int sorted[R];
    int t = threadIdx.x;
    unsigned int key = keys[blockIdx.x * R + t];
    int zero = !((key >> bit) & 1u);
    int before = exclusiveScan(zero, scan);
    int zeros = scan[R - 1];
    int place = zero ? before : zeros + t - before;
    sorted[place] = key;
    __syncthreads();  // only: ok
    keys[blockIdx.x * R + t] = sorted[t];
}
void run(unsigned int* k, int n) {
    for (int b = 0; b < 32; b++) splitBit<<<n / R, R>>>(k, b);
}
