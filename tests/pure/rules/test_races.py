"""The three race rules on hand-built Timelines."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.order.symbolic import number, symbol
from stitchcuda.analysis.order.timeline import Access, Condition, LoopInfo, Memory, Mode, Range, Shape, StreamKind
from stitchcuda.analysis.program.ir import ApiKind
from stitchcuda.analysis.rules import free_in_flight, host_read_before_sync, stream_race_raw

from tests.pure.rules.building import Run, read, site, whole, write

RAW = stream_race_raw.RULE
READ = host_read_before_sync.RULE
FREE = free_in_flight.RULE


def test_kernel_reads_on_another_stream() -> None:
    run = Run()
    a, b, x = run.stream("a"), run.stream("b"), run.buffer("dX")
    first = run.launch("produce", a, write(x))
    second = run.launch("reduce", b, read(x))
    (found,) = run.findings(RAW)
    assert found.confidence is Confidence.CERTAIN
    assert found.site == second.site
    assert found.message == ("`reduce` on stream `b` reads `dX` while `produce` on stream `a` may still be writing it")
    assert [r.site for r in found.related] == [first.site, x.site]


@pytest.mark.parametrize("how", ["event", "device wait", "stream wait", "blocking stream and default stream"])
def test_ordered_pairs_are_silent(how: str) -> None:
    run = Run()
    a, b, x, e = run.stream("a", blocking=True), run.stream("b"), run.buffer("dX"), run.event()
    run.launch("produce", a, write(x))
    if how == "event":
        run.record(e, a)
        run.wait_event(e, b)
    elif how == "device wait":
        run.sync()
    elif how == "stream wait":
        run.sync(a)
    reader = run.default if "default" in how else b
    run.launch("reduce", reader, read(x))
    assert run.findings(RAW) == []


def test_copy_then_kernel_on_nonblocking_stream() -> None:
    run = Run()
    s, x, h = run.stream("s"), run.buffer("dX"), run.buffer("h", Memory.PAGEABLE)
    run.copy("h2d", run.default, read(h), write(x))
    run.launch("use", s, read(x))
    (found,) = run.findings(RAW)
    assert found.confidence is Confidence.CERTAIN
    assert "`cudaMemcpyAsync` on the default stream" in found.message


def test_stream_of_unknown_flags_against_default_is_only_possible() -> None:
    run = Run()
    s, x = run.stream("s", StreamKind.PARAMETER, blocking=None), run.buffer("dX")
    run.launch("produce", run.default, write(x))
    run.launch("use", s, read(x))
    assert [f.confidence for f in run.findings(RAW)] == [Confidence.POSSIBLE]


def test_two_stream_parameters_may_be_one_stream() -> None:
    run = Run()
    a, b = (run.stream(n, StreamKind.PARAMETER, blocking=None) for n in "ab")
    x = run.buffer("dX")
    run.launch("produce", a, write(x))
    run.launch("use", b, read(x))
    assert [f.confidence for f in run.findings(RAW)] == [Confidence.POSSIBLE]


def test_chunks_do_not_race() -> None:
    run = Run()
    a, b, x = run.stream("a"), run.stream("b"), run.buffer("dX", size=None)
    chunk = symbol("chunk")
    low = Range(number(0), chunk, None, Shape.WHOLE)
    high = Range(chunk, chunk, None, Shape.WHOLE)
    run.launch("produce", a, write(x, low))
    run.launch("use", b, read(x, high))
    assert run.findings(RAW) == []
    run.launch("use", b, read(x, low))
    assert len(run.findings(RAW)) == 1


def test_members_of_a_family() -> None:
    run = Run()
    a, b = run.stream("a"), run.stream("b")
    i, j = symbol("i"), symbol("i") + number(1)
    x0 = run.buffer("d", instance=(i,), site=site(77))
    x1 = run.buffer("d", instance=(j,), site=site(77))
    run.launch("produce", a, write(x0))
    run.launch("use", b, read(x1))
    assert run.findings(RAW) == []
    other = run.buffer("d", instance=(symbol("k"),), site=site(77))
    run.launch("use", b, read(other))
    assert [f.confidence for f in run.findings(RAW)] == [Confidence.POSSIBLE]


def test_what_lowers_confidence() -> None:
    def levels(change: str) -> list[Confidence]:
        run = Run()
        a, b, x = run.stream("a"), run.stream("b"), run.buffer("dX")
        run.launch("produce", a, write(x, may=change == "may"), certain=change != "uncertain op")
        if change == "unknown call":
            run.unknown_call()
        if change == "free":
            run.host(ApiKind.FREE, write(run.buffer("other")))
            run.unknown_call()
        run.launch("use", b, read(x))
        return [f.confidence for f in run.findings(RAW)]

    assert levels("") == [Confidence.CERTAIN]
    assert levels("may") == levels("uncertain op") == levels("unknown call") == [Confidence.POSSIBLE]
    assert levels("free") == [Confidence.LIKELY]


def test_opposite_branches_do_not_meet() -> None:
    run = Run()
    a, b, x = run.stream("a"), run.stream("b"), run.buffer("dX")
    run.conditions = (Condition(site(1), "split", True),)
    run.launch("produce", a, write(x))
    run.conditions = (Condition(site(5), "split", False),)
    run.launch("use", b, read(x))
    assert run.findings(RAW) == []


@pytest.mark.parametrize(("decided", "count"), [(20, 1), (5, 0)])
def test_opposite_branches_in_two_rounds_meet(decided: int, count: int) -> None:
    """A decision inside the loop (line 20) falls anew in each round, one before the loop (line 5) does not."""
    run = Run()
    a, b, x = run.stream("a"), run.stream("b"), run.buffer("dX")
    run.loops.append(LoopInfo(0, site(10), None))
    run.conditions = (Condition(site(decided), "odd", True),)
    run.launch("produce", a, write(x), loop=0, iteration=(0,))
    run.conditions = (Condition(site(decided), "odd", False),)
    run.launch("use", b, read(x), loop=0, iteration=(1,))
    assert len(run.findings(RAW)) == count


def test_atomics_and_reads() -> None:
    run = Run()
    a, b, x = run.stream("a"), run.stream("b"), run.buffer("dX")
    run.launch("count", a, Access(x.id, Mode.ATOMIC, whole(4)))
    run.launch("count", b, Access(x.id, Mode.ATOMIC, whole(4)))
    assert run.findings(RAW) == []
    run.launch("use", b, read(x, whole(4)))
    assert [f.confidence for f in run.findings(RAW)] == [Confidence.LIKELY]


def test_one_finding_for_one_missing_wait() -> None:
    run = Run()
    a, b, x = run.stream("a"), run.stream("b"), run.buffer("dX")
    run.launch("clear", a, write(x))
    writer = run.launch("produce", a, write(x))
    reader = run.launch("use", b, read(x))
    run.launch("use again", b, read(x))
    (found,) = run.findings(RAW)
    assert (found.site, found.related[0].site) == (reader.site, writer.site)


@pytest.mark.parametrize(
    ("memory", "level"),
    [
        (Memory.PINNED, Confidence.CERTAIN),
        (Memory.MANAGED, Confidence.CERTAIN),
        (Memory.MAPPED, Confidence.CERTAIN),
        (Memory.PAGEABLE, Confidence.POSSIBLE),
    ],
)
def test_host_read(memory: Memory, level: Confidence) -> None:
    run = Run()
    s, h, d = run.stream("s"), run.buffer("h", memory), run.buffer("d")
    run.copy("d2h", s, read(d), write(h))
    access = run.host(ApiKind.HOST_READ, read(h))
    (found,) = run.findings(READ)
    assert (found.site, found.confidence) == (access.site, level)
    run.sync(s)
    run.host(ApiKind.HOST_READ, read(h))
    assert len(run.findings(READ)) == 1


def test_host_read_after_wait_is_silent() -> None:
    run = Run()
    s, h, d = run.stream("s"), run.buffer("h", Memory.PINNED), run.buffer("d")
    run.copy("d2h", s, read(d), write(h))
    run.sync(s)
    run.host(ApiKind.HOST_READ, read(h))
    assert run.findings(READ) == []


def test_wait_on_the_wrong_stream_does_not_help() -> None:
    run = Run()
    s, t, h, d = run.stream("s"), run.stream("t"), run.buffer("h", Memory.PINNED), run.buffer("d")
    run.copy("d2h", s, read(d), write(h))
    run.sync(t)
    run.host(ApiKind.HOST_READ, read(h))
    assert len(run.findings(READ)) == 1


def test_free_async_on_another_stream() -> None:
    run = Run()
    a, b, x = run.stream("a"), run.stream("b"), run.buffer("tmp", pooled=True)
    run.launch("fill", a, write(x))
    free = run.free_async(x, b)
    (found,) = run.findings(FREE)
    assert (found.site, found.confidence) == (free.site, Confidence.CERTAIN)
    assert found.message == (
        "`cudaFreeAsync` on stream `b` releases `tmp` while `fill` on stream `a` may still be using it"
    )


def test_free_async_on_the_same_stream_is_silent() -> None:
    run = Run()
    a, x = run.stream("a"), run.buffer("tmp", pooled=True)
    run.launch("fill", a, write(x))
    run.free_async(x, a)
    assert run.findings(FREE) == []


@pytest.mark.parametrize(
    ("kind", "pooled", "level"),
    [
        (ApiKind.FREE, False, Confidence.POSSIBLE),
        (ApiKind.FREE, True, Confidence.CERTAIN),
        (ApiKind.HOST_FREE, False, Confidence.POSSIBLE),
        (ApiKind.UNREGISTER, False, Confidence.LIKELY),
    ],
)
def test_other_releases_follow_w8(kind: ApiKind, pooled: bool, level: Confidence) -> None:
    run = Run()
    a, x = run.stream("a"), run.buffer("x", pooled=pooled)
    run.launch("fill", a, write(x))
    run.host(kind, write(x))
    assert [f.confidence for f in run.findings(FREE)] == [level]
