// One thread a block: the launch with 32 is that of another kernel, which has the same name and other parameters.

struct alignas(64) Map {
  unsigned long long words[16];
};
__device__ Map maps[64];

__device__ void modify(const Map base, Map* to, unsigned long long at) {
  __shared__ Map mine;
  mine = base;
  mine.words[0] = at;
  *to = mine;
}

namespace one {
template <typename T>
__global__ void __launch_bounds__(1) update(const Map in, const Map out, bool both) {
  modify(in, &maps[blockIdx.x], 1);
  if (both) modify(out, &maps[blockIdx.x + 32], 2);
}
}  // namespace one

namespace two {
template <typename T>
__global__ void update(T* x, int n) {
  if (threadIdx.x < n) x[threadIdx.x] = 0;
}
void run(float* x) { update<float><<<1, 32>>>(x, 32); }
}  // namespace two
