"""A program with a missing host stage, and definitions of it."""

from __future__ import annotations

MARK = "// stitchcuda: implement reference=scale_cpu host=total[1] : y = 2 * x, and the sum of y in total"
STAGE = "void scale(int n, const float* x, float* y, float* total, cudaStream_t stream);"
REFERENCE = """\
void scale_cpu(int n, const float* x, float* y, float* total) {
    total[0] = 0;
    for (int i = 0; i < n; ++i) {
        y[i] = 2 * x[i];
        total[0] += y[i];
    }
}
"""
MAIN = """\
int main() {
    float *x, *y, total, first;
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(&x, 4096 * sizeof(float));
    cudaMalloc(&y, 4096 * sizeof(float));
    cudaMemsetAsync(x, 0, 4096 * sizeof(float), stream);
    scale(4096, x, y, &total, stream);
    cudaMemcpyAsync(&first, y, sizeof(float), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    std::printf("%f %f\\n", total, first);
    cudaFree(y);
    cudaFree(x);
    cudaStreamDestroy(stream);
}
"""
KERNELS = """\
__global__ void doubled(int n, const float* from, float* to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = 2 * from[i];
}

__global__ void added(int n, const float* from, float* sum) {
    if (threadIdx.x == 0) {
        float value = 0;
        for (int i = 0; i < n; ++i) value += from[i];
        sum[0] = value;
    }
}

"""
HEAD = "void scale(int n, const float* x, float* y, float* total, cudaStream_t stream) {\n"
WORK = """\
    doubled<<<(n + 255) / 256, 256, 0, stream>>>(n, x, y);
    added<<<1, 32, 0, stream>>>(n, y, sum);
    cudaMemcpyAsync(total, sum, sizeof(float), cudaMemcpyDeviceToHost, stream);
"""
ALLOCATED = "    float* sum;\n    cudaMallocAsync(&sum, sizeof(float), stream);\n"
RELEASED = "    cudaFreeAsync(sum, stream);\n"
WAITED = "    cudaStreamSynchronize(stream);\n"
RIGHT = KERNELS + HEAD + ALLOCATED + WORK + RELEASED + WAITED + "}"
RETURNS_EARLY = KERNELS + HEAD + ALLOCATED + WORK + RELEASED + "}"
LEAKS = KERNELS + HEAD + ALLOCATED + WORK + WAITED + "}"
OTHER_STREAM = RIGHT.replace("256, 0, stream>>>", "256>>>")


def program(mark: str = MARK, stage: str = STAGE, reference: str = REFERENCE, main: str = MAIN) -> str:
    return f"#include <cstdio>\n#include <cuda_runtime.h>\n\n{reference}\n{mark}\n{stage}\n\n{main}"


def defined(body: str, kernels: str = KERNELS) -> str:
    """A definition with that body."""
    return f"{kernels}{HEAD}{body}\n}}"
