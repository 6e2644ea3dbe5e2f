// What a loop over an object goes through is another row for each thread, as in a grid-stride loop.

template <typename T>
struct GridRange {
  struct Iterator {
    T at;
    __device__ T operator*() const { return at; }
    __device__ Iterator& operator++() {
      at += gridDim.x * blockDim.x;
      return *this;
    }
    __device__ bool operator!=(const Iterator& other) const { return at < other.at; }
  };
  T count;
  __device__ GridRange(T n) : count(n) {}
  __device__ Iterator begin() const { return Iterator{T(blockIdx.x * blockDim.x + threadIdx.x)}; }
  __device__ Iterator end() const { return Iterator{count}; }
};

__global__ void scatter(float* out, const float* in, const int* place, int rows, int width) {
  for (int row : GridRange<int>(rows)) {
    const int at = place[row] * width;
    for (int k = blockIdx.y * blockDim.y + threadIdx.y; k < width; k += gridDim.y * blockDim.y)
      out[at + k] += in[row * width + k];
  }
}

void run(float* out, const float* in, const int* place, int rows, int width) {
  scatter<<<dim3(8, 8), dim3(32, 8)>>>(out, in, place, rows, width);
}
