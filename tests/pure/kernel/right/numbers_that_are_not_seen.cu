// Bounds and conditions that are read through members of a parameter's array: the same for the whole block.

struct Params {
  struct {
    float* history;
    int scales;
  } tensor[64];
};

__global__ void roll(float* newest, Params p, int length) {
  const int scales = p.tensor[blockIdx.x].scales;
  for (int k = 0; k < scales; ++k) {
    auto* history = p.tensor[blockIdx.x].history + k;
    const auto last = (newest != nullptr && newest[k] != 0.0f) ? newest[k] : history[0];
    if (last != 0.0f)
      for (int off = 0; off < length; off += 256) {
        const float a = history[off + threadIdx.x];
        __syncthreads();
        history[off + threadIdx.x] = a;
      }
  }
}

struct Bins {
  const unsigned* segments;
  const unsigned* data() const;
};

__device__ bool is_listed(const Bins& bins, int feature);

__global__ void best(float* out, Bins bins, const int* features) {
  const int feature = features[blockIdx.x];
  const auto begin = __ldg(bins.data() + feature), end = __ldg(bins.data() + feature + 1);
  float sum = 0;
  if (is_listed(bins, feature)) sum = __shfl_sync(0xffffffff, sum + threadIdx.x, 0);
  for (auto bin = begin; bin < end; bin += 32) {
    sum += __shfl_xor_sync(0xffffffff, sum + threadIdx.x, 1);
    __syncwarp();
  }
  out[blockIdx.x * 32 + threadIdx.x] = sum;
}

void run(float* newest, Params p, int n, float* out, Bins bins, const int* features) {
  roll<<<64, 256>>>(newest, p, n);
  best<<<n, 32>>>(out, bins, features);
}
