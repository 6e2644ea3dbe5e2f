// A template's number is given by the name of a constant, which reads like a type: the second round of the scan is that of two
// threads, which stay clear of each other.

typedef unsigned int uint32;
enum { WARP = 32 };
const uint32 THREADS = 64;

struct Policy {
  static const uint32 THREADS = 64;
};

__device__ uint32 scan_warp(uint32 value, volatile uint32* scratch) {
  uint32 at = 2 * threadIdx.x - (threadIdx.x & (WARP - 1));
  scratch[at] = 0;
  at += WARP;
  scratch[at] = value;
  return scratch[at] + scratch[at - 1];
}

template <uint32 COUNT>
__device__ uint32 scan_block(uint32 value, volatile uint32* scratch) {
  const uint32 mine = scan_warp(value, scratch);
  __syncthreads();
  if ((threadIdx.x & (WARP - 1)) == WARP - 1) scratch[threadIdx.x / WARP] = mine;
  __syncthreads();
  if (threadIdx.x < COUNT / WARP) {
    const uint32 sum = scratch[threadIdx.x];
    scratch[threadIdx.x] = scan_warp(sum, scratch) - sum;
  }
  __syncthreads();
  return mine + scratch[threadIdx.x / WARP];
}

__global__ void scan(const uint32* in, uint32* out, uint32* other) {
  __shared__ uint32 scratch[THREADS * 2];
  out[threadIdx.x] = scan_block<THREADS>(in[threadIdx.x], scratch);
  __syncthreads();
  other[threadIdx.x] = scan_block<Policy::THREADS>(in[threadIdx.x], scratch);
  __syncthreads();
  constexpr uint32 own = 64;
  other[threadIdx.x] += scan_block<own>(in[threadIdx.x], scratch);
}

void run(const uint32* in, uint32* out, uint32* other) { scan<<<1, THREADS>>>(in, out, other); }
