"""With barriers put in, a kernel is searched for conflicts only where one may have gone: what is found is what a search of everything finds."""

from __future__ import annotations

import random

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.kernel import conflicts as searches
from stitchcuda.analysis.kernel.conflicts import conflicts
from stitchcuda.analysis.kernel.learnt import Conflict, asked_again
from stitchcuda.analysis.kernel.model import KernelTrace
from stitchcuda.analysis.kernel.trace import kernel_traces, with_barriers

_STATEMENTS = (
    "s[t] = a[t];", "s[t] += 1;", "r[127 - t] = s[t];", "a[t] = s[127 - t];", "a[t] = r[t ^ 1];", "a[t] += r[0];",
    "atomicAdd(&s[t % 8], 1);", "s[(int)a[t]] = t;", "a[t] = r[(int)b[t]];", "a[t] = s[t];", "r[t + n] = 1;", "a[t] += r[t + n];",
    "__syncthreads();", "__syncwarp();", "if (t < 64) s[t] = 0;", "if (n > 3) r[t] = s[t ^ 32];", "if (n > 3) __syncthreads();",
    "if (t == n) s[0] = 1;", "a[t] = (n ? s : r)[t ^ 2];", "(n ? s : r)[t] = 2;",
    "__pipeline_memcpy_async(&s[t], &a[t], 4);", "__pipeline_commit();", "__pipeline_wait_prior(0);",
)  # fmt: skip


def _kernel(chance: random.Random) -> str:
    lines, open_ = [], 0
    for _ in range(chance.randint(4, 14)):
        if not chance.randrange(6):
            lines.append(
                chance.choice(("for (int i = 0; i < 3; ++i) {", "for (int i = 0; i < n; ++i) {", "if (n > 7) {"))
            )
            open_ += 1
        lines.append(chance.choice(_STATEMENTS))
        if open_ and not chance.randrange(3):
            lines.append("}")
            open_ -= 1
    body = "\n".join([*lines, "}" * open_])
    return f"__global__ void k(float* a, float* b, int n) {{\n__shared__ float s[128], r[128];\nint t = threadIdx.x;\n{body}\n}}\n"


def _walked(text: str) -> KernelTrace:
    text += "void run(float* a, float* b, int n) { k<<<64, 128>>>(a, b, n); }\n"
    index = Index(strict=True)
    index.put("k.cu", text.encode())
    program = index.analyse().program
    kernel = next(uid for uid, f in program.functions.items() if f.space == "global")
    return kernel_traces(program, kernel, {"k.cu": text.encode()}).traces[0]


def _told(found: list[Conflict]) -> list[object]:
    return [(c.earlier.at, c.later.at, c.lanes, c.warp_only, c.sure, c.barred, c.collective) for c in found]


@pytest.mark.parametrize("seed", range(2))
def test_what_is_found_with_barriers_put_in_is_what_a_search_of_everything_finds(seed: int) -> None:
    chance = random.Random(seed)
    left = gone = 0
    for _ in range(40):
        trace = _walked(_kernel(chance))
        places = sorted({(mark.function.uid, mark.span) for mark in trace.marks})
        chains = [chance.sample(places, 3) for _ in range(4)]
        before = conflicts(trace)
        again = [[_told(conflicts(with_barriers(trace, chain[:k]))) for k in (1, 2, 3)] for chain in chains]
        for chain, found in zip(chains, again, strict=True):
            for k, told in enumerate(found, 1):
                searches._last.clear()
                assert told == _told(conflicts(with_barriers(trace, chain[:k])))
                left += bool(told)
                gone += len(told) < len(before)
    assert left > 100 and gone > 100


_READ_AGAIN = """\
__global__ void k(float* a, float* b, int n) {
  __shared__ float s[128];
  int t = threadIdx.x;
  for (int i = 0; i < 2; ++i) {
    b[t] = 1;
    if (n < 1 + 4 * i) a[t] = s[0];
  }
  if (n >= 3) s[t] = 1;
}
"""
_COPIED = """\
__global__ void k(float* a, float* b, int n) {
  __shared__ float s[128];
  int t = threadIdx.x;
  if (n > 3) {
    __pipeline_memcpy_async(&s[t], &a[t], 4);
    __pipeline_commit();
    __syncthreads();
  }
  b[t] = 1;
  if (n > 3) {
    __pipeline_wait_prior(0);
    b[t] = s[127 - t];
  }
}
"""


@pytest.mark.parametrize(("text", "before"), [(_READ_AGAIN, "if (n < 1"), (_COPIED, "b[t] = 1;")])
def test_what_shows_only_with_a_barrier_put_in_is_found(text: str, before: str) -> None:
    """A read that was left out since it repeats one before, and a copy that a barrier before its wait does not publish."""
    trace = _walked(text)
    assert conflicts(trace) == []
    place = next(m for m in trace.marks if text[m.function.base + m.span[0] :].startswith(before))
    found = conflicts(with_barriers(trace, {(place.function.uid, place.span)}))
    searches._last.clear()
    assert found and _told(found) == _told(conflicts(with_barriers(trace, {(place.function.uid, place.span)})))


def test_only_what_a_barrier_may_have_parted_is_searched_again() -> None:
    trace = _walked(
        """__global__ void k(float* a, float* b, int n) {
  __shared__ float s[128], r[128];
  int t = threadIdx.x;
  s[t] = 1;
  a[t] = s[127 - t];
  __syncthreads();
  r[t] = 1;
  b[t] = r[127 - t];
}
"""
    )
    first, second = conflicts(trace)
    known = next(learnt for learnt in searches._last if learnt.trace is trace)
    for one, other in ((first, second), (second, first)):
        place = next(
            m for m in trace.marks if m.at > one.earlier.at and m.span[0] <= one.later.site.span[0] < m.span[1]
        )
        barred = with_barriers(trace, {(place.function.uid, place.span)})
        asked = asked_again(known, barred)
        assert asked.places == {(one.later.site, one.later.mode): {one.earlier.site}}
        assert asked.arrays == {(one.later.buffer, "")}
        assert conflicts(barred) == [other]
