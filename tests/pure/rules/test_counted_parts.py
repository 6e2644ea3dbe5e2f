"""What kernels count into, read by the host: a host that reads all of it meets them, one that reads a part may not."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.index import Index

HEAD = """#include <cuda_runtime.h>
__global__ void tally(const int* k, int* bins, int half) { atomicAdd(&bins[k[threadIdx.x] + half * 256], 1); }
__global__ void count(const int* k, int* bins) { atomicAdd(&bins[k[threadIdx.x]], 1); }
int f(const int* k) {
  int* hist;
  cudaMallocManaged(&hist, 512 * sizeof(int));
  cudaStream_t s[2];
  for (int i = 0; i < 2; ++i) cudaStreamCreate(&s[i]);
  int sum = 0;
"""
COUNTS = "count<<<1, 128, 0, s[0]>>>(k, hist); count<<<1, 128, 0, s[1]>>>(k, hist + 256);"
TALLIES = "for (int i = 0; i < 2; ++i) tally<<<1, 128, 0, s[i]>>>(k, hist, i);"


def confidences(body: str) -> set[Confidence]:
    index = Index(strict=True)
    index.put("a.cu", f"{HEAD}{body}\n  cudaDeviceSynchronize();\n  return sum;\n}}".encode())
    return {f.confidence for f in index.analyse().findings if f.code == "host-read-before-sync"}


@pytest.mark.parametrize(
    "body",
    [
        f"{COUNTS} cudaStreamSynchronize(s[0]); for (int i = 0; i < 256; ++i) sum += hist[i];",
        f"{COUNTS} cudaStreamSynchronize(s[1]); for (int i = 0; i < 256; ++i) sum += hist[i + 256];",
        f"{COUNTS} cudaStreamSynchronize(s[0]); sum = hist[0];",
        f"""{TALLIES} for (int h = 0; h < 2; ++h) {{
            cudaStreamSynchronize(s[h]); for (int i = 0; i < 256; ++i) sum += hist[h * 256 + i]; }}""",
    ],
)
def test_halves_are_left_in_doubt(body: str) -> None:
    assert confidences(body) <= {Confidence.POSSIBLE}


@pytest.mark.parametrize("counts", [COUNTS, TALLIES])
def test_all_of_it_is_likely_to_meet(counts: str) -> None:
    body = f"{counts} cudaStreamSynchronize(s[0]); for (int i = 0; i < 512; ++i) sum += hist[i];"
    assert Confidence.LIKELY in confidences(body) or Confidence.CERTAIN in confidences(body)
