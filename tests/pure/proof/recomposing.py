"""Pairs of programs in which launches are composed otherwise. Marks as in `twins.py`."""

from __future__ import annotations

from stitchcuda.analysis.proof.model import Declared, May, Proof
from stitchcuda.analysis.proof.prove import prove

from tests.pure.proof.twins import HEAD, analysed, versions

DEVICE_DECLARED = Declared(("model",), waits=May.ANY, copies=May.FEWER, allocations=May.ANY, device=May.ANY)

KERNELS = """\
constexpr int THREADS = 256;
constexpr int STEPS = 4;
inline int blocks_for(int n, int threads) { return (n + threads - 1) / threads; }
__global__ void bias(const float* x, const float* b, float* t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) t[i] = x[i] + b[i];
}
__global__ void gelu(const float* t, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.5f * t[i] * (1.0f + erff(t[i] * 0.70710678f));
}
__global__ void pair(const float* x, float* u, float* v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { u[i] = x[i] + 1; v[i] = x[i] - 1; }
}
__global__ void copy(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i];
}
"""
FUSED = """\
__global__ void bias_gelu(const float* x, const float* b, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float t = x[i] + b[i]; y[i] = 0.5f * t * (1.0f + erff(t * 0.70710678f)); }
}
"""
OPENING = """\
int main() {
    const int n = 1 << 20;
    float *x, *b, *t, *y, *z;
    CHECK(cudaMalloc(&x, n * 4)); CHECK(cudaMalloc(&b, n * 4)); CHECK(cudaMalloc(&t, n * 4));
    CHECK(cudaMalloc(&y, n * 4)); CHECK(cudaMalloc(&z, n * 4));
    std::vector<float> h(n, 1.5f), r(n);
    cudaStream_t s, s2; CHECK(cudaStreamCreate(&s)); CHECK(cudaStreamCreate(&s2));
    cudaEvent_t e; CHECK(cudaEventCreate(&e));
    CHECK(cudaMemcpy(x, h.data(), n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b, h.data(), n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(z, h.data(), n * 4, cudaMemcpyHostToDevice));
"""
CLOSING = """\
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(r.data(), y, n * 4, cudaMemcpyDeviceToHost));
    std::printf("%f", r[0]);
    CHECK(cudaFree(x)); CHECK(cudaFree(b)); CHECK(cudaFree(t)); CHECK(cudaFree(y)); CHECK(cudaFree(z));
    return 0;
}
"""
OLD = """\
    bias<<<blocks_for(n, THREADS), THREADS>>>(x, b, t, n); //-
    gelu<<<blocks_for(n, THREADS), THREADS>>>(t, y, n); //-
"""
NEW = "    bias_gelu<<<blocks_for(n, THREADS), THREADS>>>(x, b, y, n); //+\n"


def added(code: str) -> str:
    """Lines of the changed version alone."""
    return "".join(f"{line} //+\n" for line in code.splitlines())


def program(body: str, before_main: str = "", kernels: str = KERNELS + added(FUSED)) -> str:
    return HEAD + kernels + before_main + OPENING + body + CLOSING


def proof_of(text: str, declared: Declared = DEVICE_DECLARED) -> Proof:
    original, changed = versions(text)
    return prove(analysed(original), analysed(changed), declared)
