// code: missing-async-wait
#include <cuda_runtime.h>

#include <cuda_pipeline.h>
constexpr int N = 128;
__global__ void stream(const float4* in, float4* out, int tiles) {
    __shared__ float4 buf[2][N];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&buf[0][t], &in[t], sizeof(float4));
    __pipeline_commit();
    for (int k = 0; k < tiles; ++k) {
        int cur = k & 1;
        if (k + 1 < tiles) __pipeline_memcpy_async(&buf[cur ^ 1][t], &in[(k + 1) * N + t], sizeof(float4));
        __pipeline_commit();
        __pipeline_wait_prior(1);  // only: ok
        __pipeline_wait_prior(2);  // only: bad
        __syncthreads();
        out[k * N + t] = buf[cur][N - 1 - t];
        __syncthreads();
    }
}
void run(float4* a, float4* b, int tiles) { stream<<<1, N>>>(a, b, tiles); }
