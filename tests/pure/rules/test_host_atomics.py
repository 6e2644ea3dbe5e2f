"""Memory that the device and the host both update by atomics."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.index import Index

PROGRAM = """
__global__ void count(int* c) { atomicAdd_system(c, 1); }
void on_host(int* c) { for (int i = 0; i < 9; i++) HOST; }
int main() {
  int* c;
  cudaMallocManaged(&c, 4);
  count<<<64, 256>>>(c);
  on_host(c);
  cudaDeviceSynchronize();
}
"""


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("__sync_fetch_and_add(c, 1)", 0),
        ("__atomic_fetch_add(c, 1, 5)", 0),
        ("std::atomic_ref<int>(*c)++", 0),
        ("use(*c)", 1),
    ],
)
def test_both_sides_may_work_on_it_at_once(host: str, shown: int) -> None:
    index = Index(strict=True)
    index.put("a.cu", PROGRAM.replace("HOST", host).encode())
    found = [f for f in index.analyse().findings if f.code == "host-read-before-sync"]
    assert sum(f.confidence is not Confidence.POSSIBLE for f in found) == shown
