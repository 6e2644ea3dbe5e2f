"""Traces of reference versions: what stands in for a launch reads as that launch."""

from __future__ import annotations

from dataclasses import replace

from stitchcuda.agent.implementing.reference import BEGIN, END
from stitchcuda.agent.implementing.traces import as_launches
from stitchcuda.gpu_validate.observe.work import work_of
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, HostRead, Trace

SITE = CallSite("main.cu", 31, "main()")
OWN = (
    CallSite("main.cu", 19, "stitchcuda_stand_in::Launch::mark(unsigned long)"),
    CallSite("main.cu", 19, "stitchcuda_stand_in_saxpy(int, float, float const*, float*)"),
    SITE,
)


def trace_of(calls: list[Call], reads: dict[int, int] | None = None, ops: bool = True) -> Trace:
    """One call every microsecond. `reads`: nanoseconds by call."""
    placed = tuple(
        replace(c, index=k, start=1000 * k, end=1000 * k + 900, correlation=100 + k) for k, c in enumerate(calls)
    )
    done = [
        DeviceOp("copy", c.start, c.end, c.stream, c.correlation, bytes=c.bytes, copy_kind=c.copy_kind)
        for c in placed
        if c.copy_kind in ("h2d", "d2h")
    ]
    found = tuple(HostRead(k, placed[k].bytes, f"digest {k}", ns) for k, ns in (reads or {}).items())
    return Trace("full", 0, 1, 10**6, placed, tuple(done) if ops else (), found)


def copy(kind: str, size: int, source: int = 1, target: int = 2, thread: int = 0) -> Call:
    return Call(0, "cudaMemcpy", 0, 0, thread, bytes=size, copy_kind=kind, source=source, target=target)


def mark(size: int, number: int = 0, thread: int = 0) -> Call:
    return replace(copy("h2h", size + number, 77, 77, thread), sites=OWN)


def stand_in(number: int = 0, thread: int = 0) -> list[Call]:
    return [
        mark(BEGIN, number, thread),
        Call(0, "cudaStreamSynchronize", 0, 0, thread, stream=3),
        Call(0, "cudaDeviceSynchronize", 0, 0, thread),
        copy("d2h", 64, 0x1000, 9, thread),
        copy("d2h", 64, 0x2000, 9, thread),
        copy("h2d", 64, 9, 0x2000, thread),
        Call(0, "cudaDeviceSynchronize", 0, 0, thread),
        mark(END, number, thread),
    ]


def test_a_stand_in_reads_as_the_launch_that_it_stands_for() -> None:
    calls = [copy("h2d", 64), *stand_in(), Call(0, "cudaGetLastError", 0, 0), copy("d2h", 64, 0x2000)]
    found = as_launches(trace_of(calls, {4: 50, 5: 70, 10: 30}), ["saxpy"], operations=True)
    assert [c.api for c in found.calls] == ["cudaMemcpy", "cudaLaunchKernel", "cudaGetLastError", "cudaMemcpy"]
    assert [c.index for c in found.calls] == [0, 1, 2, 3]
    launch = found.calls[1]
    assert (launch.kernel, launch.stream, launch.pointers, launch.sites) == ("saxpy", 3, (0x1000, 0x2000), (SITE,))
    assert (launch.start, launch.end) == (1000, 8900)
    assert found.reads == (HostRead(3, 64, "digest 10", 150),), (
        "what reading the stand-in's copies cost is not the program's time"
    )
    work = work_of(found)
    assert (work.kernels, work.copies) == ({"saxpy": 1}, {"h2d": 1, "d2h": 1})


def test_without_recorded_operations_none_is_made_up() -> None:
    found = as_launches(trace_of([*stand_in()], ops=False), ["saxpy"], operations=False)
    assert found.ops == () and [c.kernel for c in found.calls] == ["saxpy"]


def test_stages_and_threads_are_told_apart() -> None:
    one, other = stand_in(0, 0), stand_in(1, 1)
    mixed = [call for pair in zip(one, other, strict=True) for call in pair]
    found = as_launches(trace_of(mixed), ["saxpy", "ns::scale"], operations=True)
    assert [(c.kernel, c.thread) for c in found.calls] == [("saxpy", 0), ("ns::scale", 1)]
    assert {op.name for op in found.ops} == {"saxpy", "ns::scale"}


def test_a_trace_without_stand_ins_stays_as_it_is() -> None:
    plain = trace_of([copy("h2d", 64), copy("h2h", BEGIN, 1, 2), copy("h2h", 7, 7, 7)])
    assert as_launches(plain, ["saxpy"], operations=True) is plain


def test_a_stand_in_that_did_not_end_is_left() -> None:
    cut = trace_of([copy("h2d", 64), *stand_in()[:5]])
    assert as_launches(cut, ["saxpy"], operations=True) is cut


def test_marks_of_a_stage_that_is_not_there_mean_nothing() -> None:
    plain = trace_of(stand_in(1))
    assert as_launches(plain, ["saxpy"], operations=True) is plain


def own_work() -> list[Call]:
    """A host stage that is written: it launches, copies to the host, waits; one call fails."""
    mark_api = [replace(mark(size), api="cudaMemcpyAsync") for size in (BEGIN, END)]
    return [
        mark_api[0],
        Call(0, "cudaLaunchKernel", 0, 0, kernel="doubled", pointers=(0x1000,), stream=4),
        copy("d2h", 4, 0x1000, 9),
        Call(0, "cudaStreamSynchronize", 0, 0, stream=4),
        Call(0, "cudaFree", 0, 0, status=1),
        mark_api[1],
    ]


def test_a_host_stage_reads_the_same_whoever_does_it() -> None:
    shown = replace(
        copy("d2h", 4, 0x3000), sites=(CallSite("main.cu", 90, "void stitchcuda_stand_in::shown<float>()"), SITE)
    )
    reference = trace_of([copy("h2d", 64), *stand_in(), shown], {9: 1})
    version = trace_of([copy("h2d", 64), *own_work(), shown], {3: 40, 7: 2})
    one = as_launches(reference, ["scale"], operations=True, hosts={0})
    other = as_launches(version, ["scale"], operations=True, hosts={0}, written=0)
    assert [c.api for c in one.calls] == ["cudaMemcpy", "cudaLaunchKernel", "cudaMemcpy"]
    assert [c.api for c in other.calls] == ["cudaMemcpy", "cudaLaunchKernel", "cudaFree", "cudaMemcpy"], (
        "what fails is kept"
    )
    assert [(r.bytes, r.digest) for r in one.reads] == [(4, "digest 9")] and len(other.reads) == 1
    assert {(c.kernel, c.pointers, c.stream) for c in (one.calls[1], other.calls[1])} == {("scale", (), 0)}
    works = [work_of(found) for found in (one, other)]
    assert works[0] == works[1] and works[0].kernels == {"scale": 1}
    assert one.calls[-1].sites == other.calls[-1].sites == (SITE,), "shown where the stage is declared"


def test_what_a_host_stage_runs_on_the_device_counts_as_long_as_it_took() -> None:
    trace = trace_of(own_work())
    kernel = DeviceOp("kernel", 9000, 20_000, 4, 101, "doubled")
    found = as_launches(replace(trace, ops=(*trace.ops, kernel)), ["scale"], operations=True, hosts={0}, written=0)
    (op,) = found.ops
    assert (op.kind, op.name, op.start, op.end) == ("kernel", "scale", 2000, 20_000)
    reference = as_launches(trace_of([*stand_in()]), ["scale"], operations=True, hosts={0})
    assert [(op.start, op.end) for op in reference.ops] == [(0, 7900)], "the whole stand-in"
