// In the branch behind `else` no thread has four elements left, so that nobody takes one side of the last choice. Nobody has
// left there either: all threads meet the barrier of the scan.

__device__ unsigned exclusive(unsigned value, unsigned* scratch) {
  int at = threadIdx.x;
  scratch[at] = 0;
  __syncthreads();
  at += blockDim.x;
  scratch[at] = value;
  __syncthreads();
  return scratch[at - 1];
}

__global__ void scan(unsigned* out, const unsigned* in, int n, bool full) {
  __shared__ unsigned scratch[512];
  unsigned sum;
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (full || i + 3 < n) {
    sum = in[i] + in[i + 1] + in[i + 2] + in[i + 3];
  } else {
    sum = i < n ? in[i] : 0;
    sum += i + 1 < n ? in[i + 1] : 0;
    sum += i + 3 < n ? in[i + 3] : 0;
  }
  sum = exclusive(sum, scratch);
  __syncthreads();
  out[i / 4] = sum;
}

void run(unsigned* out, const unsigned* in, int n) {
  scan<<<(n + 1023) / 1024, 256>>>(out, in, n, n % 1024 == 0);
}
