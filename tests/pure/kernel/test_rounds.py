"""Loops whose rounds repeat one another: rounds that are not walked count all the same."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.kernel.model import Mode
from stitchcuda.analysis.kernel.trace import kernel_traces

from tests.pure.kernel.findings import shown, variant

_LAUNCH = "void run(float* out, const float* in, int n) {{ k<<<n, dim3({x}, {y})>>>(out, in, n); }}\n"


def _kernel(body: str, x: int = 32, y: int = 8) -> str:
    head = "__global__ void k(float* out, const float* in, int n) {\n"
    return head + body + "}\n" + _LAUNCH.format(x=x, y=y)


# each with a barrier that matters to rounds in the middle of a loop, or to one of them
_LOOPS = {
    "a window of rows": _kernel("""
  __shared__ float s[32][32];
  s[threadIdx.y + 20][threadIdx.x] = in[threadIdx.x];
  __syncthreads(); // only: ok
  float sum = 0;
  for (int i = 0; i < 24; i++) sum += s[threadIdx.y + i][threadIdx.x];
  out[threadIdx.x] = sum;
"""),
    "a row that one round reads": _kernel("""
  __shared__ float s[64][32];
  s[threadIdx.y + 40][threadIdx.x] = in[threadIdx.x];
  __syncthreads(); // only: ok
  float sum = 0;
  for (int i = 0; i < 48; i++) if (i == 45) sum += s[i][threadIdx.x];
  out[threadIdx.x] = sum;
"""),
    "rows that come around": _kernel("""
  __shared__ float s[32][32];
  s[threadIdx.y][threadIdx.x] = in[threadIdx.x];
  __syncthreads(); // only: ok
  float sum = 0;
  for (int i = 0; i < 40; i++) sum += s[(i + 10) % 32][threadIdx.x];
  out[threadIdx.x] = sum;
"""),
    "the row after the last round": _kernel("""
  __shared__ float s[64][32];
  int row = 0;
  for (int i = 0; i < 30; i++) row += 2;
  s[60 + threadIdx.y / 8][threadIdx.x] = threadIdx.y;
  __syncthreads(); // only: ok
  out[threadIdx.y] = s[row][threadIdx.x];
"""),
}


@pytest.mark.parametrize("name", _LOOPS)
def test_a_barrier_that_matters_to_rounds_in_the_middle_is_missed(name: str) -> None:
    assert shown(variant(_LOOPS[name], "bad")) == ["missing-syncthreads"]
    assert shown(variant(_LOOPS[name], "ok")) == []


def test_rounds_that_are_not_walked_touch_what_they_would() -> None:
    text = _kernel("""
  __shared__ float s[64][32];
  float sum = 0;
  for (int i = 0; i < 50; i++) sum += s[i][threadIdx.x];
  out[threadIdx.x] = sum;
""")
    index = Index(strict=True)
    index.put("k.cu", text.encode())
    program = index.analyse().program
    kernel = next(uid for uid, f in program.functions.items() if f.space == "global")
    trace = kernel_traces(program, kernel, {"k.cu": text.encode()}).traces[0]
    rows = [dict(a.offset.at(0)).get((), 0) for a in trace.accesses if a.mode is Mode.READ and a.buffer.name == "s"]
    assert rows == [128 * i for i in range(50)]
    assert trace.complete
    assert [a.at for a in trace.events] == list(range(len(trace.events)))
