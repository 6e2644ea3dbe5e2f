// code: missing-syncthreads
// Each element is given the value of another one: the last warp writes what the first reads.

__global__ void turn(float* out, const float* in) {
  __shared__ float row[256];
  row[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  row[threadIdx.x] = row[(threadIdx.x + 32) % 256];  // only: bad
  row[threadIdx.x] = row[threadIdx.x];  // only: ok
  out[threadIdx.x] = row[threadIdx.x];
}

void run(float* out, const float* in) { turn<<<1, 256>>>(out, in); }
