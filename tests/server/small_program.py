"""A small program with a wait that nothing needs in each of two files; both have characters of two UTF-16 units before it."""

from __future__ import annotations

from pathlib import Path

MAIN = """\
#include <cuda_runtime.h>
#include "smooth.h"

int main() {
    const int n = 1 << 20;
    float *host, *x, *y;
    cudaMallocHost(&host, n * sizeof(float));
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    for (int i = 0; i < n; ++i) host[i] = i;
    cudaMemcpy(x, host, n * sizeof(float), cudaMemcpyHostToDevice);
    for (int step = 0; step < 10; ++step) {
        smooth(x, y, n); /* 🐢🐢 延迟 */ cudaDeviceSynchronize();
        smooth(y, x, n);
    }
    cudaMemcpy(host, x, n * sizeof(float), cudaMemcpyDeviceToHost);
    return host[7] > 0 ? 0 : 1;
}
"""
SMOOTH = """\
#include "smooth.h"

__global__ void average(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) out[i] = (in[i - 1] + in[i] + in[i + 1]) / 3;
}

void smooth(const float* in, float* out, int n) {
    average<<<(n + 255) / 256, 256>>>(in, out, n);  // 🐢
    /* 🐢 */ cudaDeviceSynchronize();
    average<<<(n + 255) / 256, 256>>>(in, out, n);
}
"""
FILES = {
    "main.cu": MAIN,
    "smooth.cu": SMOOTH,
    "smooth.h": "#pragma once\nvoid smooth(const float* in, float* out, int n);\n",
    "stitchcuda.toml": "",
}


def write(folder: Path) -> Path:
    """Puts the program into a new folder `program`; gives its path."""
    program = folder / "program"
    program.mkdir()
    for name, text in FILES.items():
        (program / name).write_text(text, encoding="utf-8")
    return program
