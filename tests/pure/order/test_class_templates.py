"""Class templates of which arguments are left out."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.program.ir import ApiKind

from tests.pure.order.programs import run

POOL = """struct Pool {
  float* memory;
  void init() { cudaMalloc(&memory, 64); }
  void release() { cudaFree(memory); }
};
struct None { void init() {} void release() {} };
"""
MAP = """template <typename Key, typename Value = Key, class Allocator = Pool> class Map {
  Allocator allocator; Value* values;
 public:
  Map() { allocator.init(); cudaMalloc(&values, 16 * sizeof(Value)); }
  ~Map() { cudaFree(values); allocator.release(); }
  void fill() { Allocator other; other.init(); a<<<1, 1>>>((float*)values); other.release(); }
};
"""


def kinds(body: str) -> list[str]:
    ops = run(body, before=POOL + MAP).timeline.ops[2:]
    return [op.kind.value for op in ops if op.kind in (ApiKind.ALLOC, ApiKind.FREE, ApiKind.LAUNCH)]


@pytest.mark.parametrize("type", ["Map<int>", "Map<int, float>", "Map<int, float, Pool>"])
def test_they_are_what_the_class_says(type: str) -> None:
    assert kinds(f"{type} map; map.fill();") == ["alloc", "alloc", "alloc", "launch", "free", "free", "free"]


def test_what_is_given_counts() -> None:
    assert kinds("Map<int, float, None> map; map.fill();") == ["alloc", "launch", "free"]


def test_one_parameter_may_stand_for_another() -> None:
    result = run("Map<double> map;", before=POOL + MAP)
    sizes = [str(b.size) for b in result.timeline.buffers if b.name.endswith("values")]
    assert sizes == ["128"]
