"""Which constructor of a class runs, and what it hands on to another one."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.program.ir import ApiKind

from tests.pure.order.programs import run

DELEGATES = """struct Buffer {
  Buffer(int n) : Buffer(n, 4) {}
  Buffer(int n, int size) : n_(n) { cudaMalloc(&data_, n * size); cudaStreamCreate(&stream_); }
  ~Buffer() { cudaFree(data_); cudaStreamDestroy(stream_); }
  int n_; float* data_; cudaStream_t stream_;
};
"""
OF_TYPES = """template <typename In, typename Out = In, typename Scale = Out> struct Buffer {
  Buffer(int n, Scale first = Scale{1.0f}, size_t work = 1024, bool batch = false) : Buffer(n, first, work, Scale{2.0f}, MODE, batch) {}
  Buffer(int n, Scale first, size_t work, Mode mode) : Buffer(n, first, work, Scale{2.0f}, mode, false) {}
  Buffer(int n, Scale first, size_t work, Scale s, Mode mode, bool batch = false) : batch_(batch) {
    cudaMalloc(&data_, n); cudaStreamCreate(&stream_);
  }
  ~Buffer() { cudaFree(data_); cudaStreamDestroy(stream_); }
  bool batch_; float* data_; cudaStream_t stream_;
};
"""


@pytest.mark.parametrize(
    ("before", "made"),
    [
        (DELEGATES, "Buffer b(4);"),
        (DELEGATES, "Buffer b{4};"),
        (OF_TYPES, "Buffer<char, int, float> b(4);"),
    ],
)
def test_a_constructor_that_hands_on_to_another_one(before: str, made: str) -> None:
    result = run(f"{{ {made} a<<<1, 1, 0, b.stream_>>>(b.data_); }}", before=before)
    launch = result.op("a")
    used = {a.buffer for a in launch.accesses}
    released = [{a.buffer for a in op.accesses} for op in result.timeline.ops if op.kind is ApiKind.FREE]
    assert len(used) == 1 and released == [used]


def test_the_constructor_that_fits_runs() -> None:
    before = """struct From { From(const char* path) { a<<<1, 1>>>(nullptr); } From(int size) { b<<<1, 1>>>(nullptr); }
      From(float* data) { c<<<1, 1>>>(data); } };
    """
    result = run('From one("x"); From two(4); From three(x);', before=before)
    assert [op.kernel for op in result.timeline.ops if op.kernel] == ["a", "b", "c"]


def test_constructors_that_hand_on_to_each_other_come_to_an_end() -> None:
    before = "struct Odd { Odd(int n) : Odd(n, 1) {} Odd(int n, int m) : Odd(n) { a<<<1, 1>>>(nullptr); } };\n"
    assert run("Odd odd(4);", before=before).op("a")
