// code: missing-syncthreads
#include <cuda_runtime.h>

struct Stage {
    float* s;
    __device__ void put(int i, float v) {
        s[i] = v;
    }
    __device__ float get(int i) const {
        return s[i];
    }
};
__global__ void k(const float* in, float* out) {
    __shared__ float s[128];
    Stage st{s};
    int t = threadIdx.x;
    st.put(t, in[t]);
    __syncthreads();  // only: ok
    out[t] = st.get(127 - t);
}
void run(float* a, float* b) {
    k<<<1,128>>>(a,b);
}
