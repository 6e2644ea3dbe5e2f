"""Objects at namespace scope, which are made before `main` and end after it."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.program.ir import ApiKind

from tests.pure.order.programs import run

LAYER = """struct Layer {
  float* data; cudaStream_t s;
  Layer(int n) { cudaMalloc(&data, n); cudaStreamCreate(&s); }
  ~Layer() { cudaFree(data); cudaStreamDestroy(s); }
};
"""


@pytest.mark.parametrize("declared", ["Layer first(4), second(8);", "Layer first = Layer(4);\nstatic Layer second{8};"])
def test_they_are_constructed_and_destroyed(declared: str) -> None:
    result = run("a<<<1, 1, 0, first.s>>>(first.data); b<<<1, 1, 0, second.s>>>(second.data);", before=LAYER + declared)
    ops = result.timeline.ops
    assert [op.kind for op in ops if op.kind in (ApiKind.ALLOC, ApiKind.FREE)][-4:].count(ApiKind.FREE) == 2
    first, second = result.op("a"), result.op("b")
    assert first.stream != second.stream
    assert {a.buffer for a in first.accesses}.isdisjoint({a.buffer for a in second.accesses})
    released = [a.buffer for op in ops if op.kind is ApiKind.FREE for a in op.accesses]
    assert len(released) == len(set(released)) == 2


def test_one_of_another_file_is_the_programs_too() -> None:
    index = Index(strict=True)
    index.put("layer.h", f"{LAYER}".encode())
    index.put("net.cu", b'#include "layer.h"\nLayer net(16);\n')
    index.put("main.cu", b'#include "net.cu"\nint main() { cudaDeviceSynchronize(); }\n')
    (timeline,) = index.analyse().timelines
    assert [op.kind for op in timeline.ops] == [
        ApiKind.ALLOC, ApiKind.STREAM_CREATE, ApiKind.DEVICE_SYNC, ApiKind.FREE, ApiKind.STREAM_DESTROY
    ]  # fmt: skip
