"""A program with a missing kernel, and what is made of it."""

from __future__ import annotations

from stitchcuda.agent.implementing.marker import MarkerError
from stitchcuda.agent.implementing.reference import reference_texts
from stitchcuda.agent.implementing.stages import Stage, find_stages
from stitchcuda.analysis.index.index import Analysis, Index

MARK = "// stitchcuda: implement reference=saxpy_cpu outputs=y : y = a*x + y, one thread per element"
KERNEL = "__global__ void saxpy(int n, float a, const float* x, float* y);"
REFERENCE = """\
void saxpy_cpu(int n, float a, const float* x, float* y) {
    for (int i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
}
"""
MAIN = """\
int main() {
    float *x, *y, first;
    cudaMalloc(&x, 4096 * sizeof(float));
    cudaMalloc(&y, 4096 * sizeof(float));
    cudaMemset(x, 0, 4096 * sizeof(float));
    cudaMemset(y, 0, 4096 * sizeof(float));
    saxpy<<<16, 256>>>(4096, 2.0f, x, y);
    cudaMemcpy(&first, y, sizeof(float), cudaMemcpyDeviceToHost);
    std::printf("%f\\n", first);
    cudaFree(y);
    cudaFree(x);
}
"""
RIGHT = """\
__global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __fadd_rn(__fmul_rn(a, x[i]), y[i]);
}"""


def program(mark: str = MARK, kernel: str = KERNEL, reference: str = REFERENCE, main: str = MAIN) -> str:
    return f"#include <cstdio>\n\n{reference}\n{mark}\n{kernel}\n\n{main}"


def analysed(files: dict[str, str]) -> Analysis:
    index = Index(strict=True)
    for path, text in files.items():
        index.put(path, text.encode())
    return index.analyse()


def stage_of(text: str | dict[str, str]) -> Stage:
    """The only stage of a program. Raises MarkerError."""
    (found,) = find_stages(analysed({"main.cu": text} if isinstance(text, str) else text))
    if isinstance(found, MarkerError):
        raise found
    return found


def referred(files: dict[str, str]) -> dict[str, str]:
    """The files with stand-ins."""
    stages = find_stages(analysed(files))
    assert not [s for s in stages if isinstance(s, MarkerError)]
    texts = {path: text.encode() for path, text in files.items()}
    made = reference_texts(texts, [s for s in stages if isinstance(s, Stage)])
    return {**files, **{path: text.decode() for path, text in made.items()}}
