"""A timer that is a macro without parentheses, from a header that is not in sight: the wait in front of it serves the time."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.index import Index

TEXT = """#include <bench.h>
__global__ void k(float* a, int n) {{ if (threadIdx.x < n) a[threadIdx.x] *= 2; }}
void run(float* a, float* h, int n) {{
  {before}
  k<<<1, 128>>>(a, n);
  cudaDeviceSynchronize();
  {after}
  cudaMemcpy(h, a, n * 4, cudaMemcpyDeviceToHost);
}}
void each(float* a, float* h, int n, int rounds) {{
  for (int i = 0; i < rounds; ++i) {{
    {before}
    k<<<1, 128>>>(a, n);
    cudaDeviceSynchronize();
    {after}
  }}
  cudaMemcpy(h, a, n * 4, cudaMemcpyDeviceToHost);
}}
"""


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        ("bench_start_timer;", "bench_stop_timer;", set()),
        ("bench_start_timer;", "n += 0; bench_stop_timer;", set()),
        ("", "", {"redundant-sync", "sync-in-loop"}),
        ("pad_rows;", "pad_rows;", {"redundant-sync", "sync-in-loop"}),
    ],
)
def test_a_macro_named_after_a_timer_takes_a_time(before: str, after: str, codes: set[str]) -> None:
    index = Index(strict=True)
    index.put("a.cu", TEXT.format(before=before, after=after).encode())
    found = {f.code for f in index.analyse().findings if f.confidence is not Confidence.POSSIBLE}
    assert found & {"redundant-sync", "sync-in-loop"} == codes
