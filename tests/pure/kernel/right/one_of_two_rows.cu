// The first call works on the first rows of shared memory, the second one on the others, wherever `limit` is not zero.

__device__ void part(const float* angles, float* out, int heads, int d, int row, int at) {
  extern __shared__ float rows[];
  float *c = nullptr, *s = nullptr;
  if (row == 0) {
    c = rows;
    s = rows + d;
  } else {
    c = rows + 2 * d;
    s = rows + 3 * d;
  }
  for (int i = threadIdx.x * blockDim.y + threadIdx.y; i < d; i += blockDim.x * blockDim.y) sincosf(angles[i], &s[i], &c[i]);
  __syncthreads();
  for (int h = threadIdx.y; h < heads; h += blockDim.y)
    for (int k = threadIdx.x; k < d; k += blockDim.x) out[at + h * d + k] = c[k] * (k % 2 ? s[k - 1] : s[k + 1]);
}

__global__ void rope(const float* q, const float* k, float* out, int heads, int d, const int limit) {
  part(q, out, heads, d, 0, 0);
  part(k, out, heads, d, limit, limit);
}

void run(const float* q, const float* k, float* out, int heads, int d, int limit) {
  rope<<<1, dim3(32, heads < 16 ? 4 : 8), 4 * d * sizeof(float)>>>(q, k, out, heads, d, limit);
}
