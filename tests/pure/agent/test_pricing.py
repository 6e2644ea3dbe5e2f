"""Prices from hand-made traces: device work that goes, and idle time of the device behind a call; never work that stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stitchcuda.agent.pricing import Costs, Place, pricing
from stitchcuda.agent.transforms.transform import Proposal
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.program.ir import ApiKind
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, Trace

TEXT = """\
__global__ void work(float* p) { p[threadIdx.x] += 1; }
int main() {
    float* p;
    cudaMalloc(&p, 1024);
    work<<<1, 256>>>(p);
    cudaDeviceSynchronize();
    work<<<1, 256>>>(p);
    cudaDeviceSynchronize();
}
"""


def call(index: int, api: str, line: int, start: int, end: int) -> Call:
    return Call(index, api, start, end, correlation=index + 1, sites=(CallSite("/home/me/app/a.cu", line, "main"),))


# The host waits from 20 to 120 for a kernel that ends at 100; the next one is launched at 130 and starts at 140.
CALLS = (
    call(0, "cudaLaunchKernel", 5, 10, 20),
    call(1, "cudaDeviceSynchronize", 6, 20, 120),
    call(2, "cudaLaunchKernel", 7, 130, 135),
    call(3, "cudaDeviceSynchronize", 8, 135, 240),
)
OPS = (DeviceOp("kernel", 15, 100, correlation=1), DeviceOp("kernel", 140, 230, correlation=3))
TRACE = Trace("full", 0, 5, 250, CALLS, OPS)


def analysed(text: str) -> Analysis:
    index = Index(strict=True)
    index.put("app/a.cu", text.encode())
    return index.analyse()


def proposal(analysis: Analysis, which: int) -> Proposal:
    waits = [op.site for op in analysis.timelines[0].ops if op.kind is ApiKind.DEVICE_SYNC]
    return Proposal("remove-wait", "", "app/a.cu", 1, (), Declared(), (), (waits[which],))


def test_a_wait_costs_the_time_in_which_the_device_stands_still_behind_it() -> None:
    analysis = analysed(TEXT)
    assert pricing(TRACE)([proposal(analysis, 0), proposal(analysis, 1)], analysis) == [
        pytest.approx(40e-9),  # from the end of the first kernel to the start of the second
        0.0,  # the last wait only waits for work that must be done
    ]


def test_lines_of_a_later_version_are_followed_back() -> None:
    first = analysed(TEXT)
    later = analysed(TEXT.replace("int main() {\n", "int main() {\n    // two\n    // lines\n"))
    price = pricing(TRACE)
    assert price([], first) == []
    assert price([proposal(later, 0)], later) == [pytest.approx(40e-9)]


def test_a_copy_costs_what_nothing_else_overlaps_and_a_gap_counts_once() -> None:
    copies = (
        Call(0, "cudaMemcpy", 0, 50, correlation=1, sites=(CallSite("a.cu", 3),)),
        Call(1, "cudaMemcpy", 50, 100, correlation=2, sites=(CallSite("a.cu", 4),)),
        Call(2, "cudaLaunchKernel", 101, 103, correlation=3, sites=(CallSite("a.cu", 5),)),
    )
    ops = (
        DeviceOp("kernel", 0, 20, correlation=9),
        DeviceOp("copy", 10, 40, correlation=1),
        DeviceOp("copy", 60, 90, correlation=2),
        DeviceOp("kernel", 110, 120, correlation=3),
    )
    costs = Costs(Trace("full", 0, 0, 120, copies, ops))
    both = costs.price(costs.calls_at([Place("x/a.cu", 3, 4)]))
    assert both.calls == 2
    assert both.device == pytest.approx(50e-9) and both.idle == pytest.approx(40e-9)


def test_what_a_trace_cannot_tell_has_no_price() -> None:
    analysis = analysed(TEXT)
    for trace in (replace(TRACE, mode="timing"), replace(TRACE, dropped=1), replace(TRACE, calls=())):
        assert pricing(trace)([proposal(analysis, 0)], analysis) == [None]
    elsewhere = Costs(TRACE).price(Costs(TRACE).calls_at([Place("lib/a.cu", 6, 6)]))
    assert elsewhere.seconds is None and "no call" in elsewhere.rests_on
