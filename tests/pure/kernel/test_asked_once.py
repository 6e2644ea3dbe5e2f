"""What several rules ask of a kernel is found out once, and guesses that cannot change a finding are not walked."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.kernel import trace as walks
from stitchcuda.analysis.kernel.conditions import conditions_of
from stitchcuda.analysis.kernel.conflicts import conflicts
from stitchcuda.analysis.kernel.trace import KernelTraces, kernel_traces, with_barriers
from stitchcuda.analysis.program.ir import Program

_EXCHANGE = """\
__global__ void k(float* out, const float* in) {{
  __shared__ float s[{size}];
  s[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = s[{size} - 1 - threadIdx.x];
  {more}
}}
"""
_SPIN = "while (atomicCAS((int*)out, 0, 1) != 0);"
_ERROR = "__syncthreads(); out[0] = 1 1 2 ) ;"


def _analysed(text: str) -> tuple[Program, str]:
    index = Index(strict=True)
    index.put("k.cu", text.encode())
    program = index.analyse().program
    return program, next(uid for uid, f in program.functions.items() if f.space == "global")


def _first_guess(text: str) -> KernelTraces:
    program, kernel = _analysed(text)
    return kernel_traces(program, kernel, {"k.cu": text.encode()}, 1)


def test_the_same_barriers_in_the_same_walk_are_one_trace_with_its_conflicts() -> None:
    text = _EXCHANGE.format(size=256, more="")
    program, kernel = _analysed(text)
    trace = kernel_traces(program, kernel, {"k.cu": text.encode()}).traces[0]
    before = conflicts(trace)
    assert before
    places = [(mark.function.uid, mark.span) for mark in trace.marks]
    barred = [with_barriers(trace, {place}) for place in places]
    left = [conflicts(each) for each in barred]
    assert any(not each for each in left)
    for place, each, found in zip(places, barred, left, strict=True):
        assert with_barriers(trace, [place]) is each and conflicts(each) is found
    assert conflicts(trace) is before
    assert conditions_of(program) is conditions_of(program)


@pytest.mark.parametrize(
    ("size", "more", "speaks"), [(256, "", True), (256, _ERROR, True), (256, _SPIN, False), (96, "s[200] = 0;", False)]
)
def test_a_first_guess_speaks_for_others_unless_a_rule_passes_over_it(size: int, more: str, speaks: bool) -> None:
    traces = _first_guess(_EXCHANGE.format(size=size, more=more))
    assert not traces.fixed
    assert traces.speaks_for_others == speaks


def test_a_kernel_that_cannot_be_parsed_and_shows_nothing_is_walked_once() -> None:
    _analysed(_EXCHANGE.format(size=256, more=_ERROR).replace("out[threadIdx.x] = s", "out[threadIdx.x] = in"))
    assert walks._last is not None
    assert len(walks._last[3].traces) == 1 and walks._last[3].traces[0].broken
