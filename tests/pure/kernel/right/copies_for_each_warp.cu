// The first warp writes back what its elements hold: the others copy them, whenever they come.

__global__ void levels(float* out, const float* in, int n) {
  __shared__ float level[256];
  if (threadIdx.x == 0) {
    level[0] = in[0];
    for (int k = 1; k < 32; ++k) level[k] = level[k - 1] * 0.25f;
  }
  __syncthreads();
  const int first = threadIdx.x / 32 * 32;
  const int lane = threadIdx.x - first;
  level[first + lane] = level[lane];
  __syncwarp();
  for (int i = threadIdx.x; i < n; i += 256) out[i] = level[first + (i & 31)];
}

void run(float* out, const float* in, int n) { levels<<<1, 256>>>(out, in, n); }
