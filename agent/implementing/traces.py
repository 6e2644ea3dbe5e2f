"""Traces of versions with stand-ins as if these were the launches that they stand for.

A stand-in copies buffers to the host and back. Compared with a version that launches the kernel these would be results that it does
not read and copies that it does not make. What a stand-in does lies between two marks (`stand_in.cuh`): copies of host memory onto
itself, of sizes that no program uses. It becomes one launch, on the stand-in's stream, of a kernel that takes the buffers and runs as
long.

A host stage is one launch as well, of its own name: in the reference version, and in a version that defines it, where what it launches,
copies and waits for lies between the marks, and runs on the device for as long as all of that does. Its own code can make marks, too,
and hides nothing by that: it runs between ours, and what it does there is its own affair. Calls that fail are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from stitchcuda.agent.implementing.reference import BEGIN, END
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, HostRead, Trace

_OWN = "stitchcuda_stand_in"  # in the names of all its functions


@dataclass(frozen=True)
class _Span:
    """The calls of one stand-in, marks included, by their places in the trace."""

    number: int
    places: tuple[int, ...]


def as_launches(
    trace: Trace, kernels: Sequence[str], *, operations: bool, hosts: Collection[int] = (), written: int = -1
) -> Trace:
    """`kernels` are the names of the stages by number, `hosts` the numbers of those that are host stages, `written` that of one which
    the version defines. `operations`: the run recorded device operations. A stand-in that did not end (the program was stopped in it)
    stays as it is, and the trace says so."""
    calls = sorted(trace.calls, key=lambda c: c.index)
    spans = tuple(_spans(calls, len(kernels)))
    if not spans:
        return replace(trace, calls=tuple(map(_from_outside, trace.calls))) if hosts else trace
    gone = {place for span in spans for place in span.places}
    launches = {span.places[0]: _launch(calls, span, kernels[span.number], host=span.number in hosts) for span in spans}
    kept: list[Call] = []
    moved: dict[int, int] = {}
    for place, call in enumerate(calls):
        failed = call.status and place not in launches
        if place in gone and place not in launches and not failed:
            continue
        one = launches.get(place, _from_outside(call) if hosts else call)
        moved[call.index] = len(kept)
        kept.append(replace(one, index=len(kept)))
    inside = {calls[place].index for place in gone}
    dropped = {calls[place].correlation for place in gone}
    ops = [op for op in trace.ops if op.correlation not in dropped]
    if operations:
        for span in spans:
            own = [op for op in trace.ops if op.correlation in {calls[p].correlation for p in span.places}]
            ops.append(_operation(launches[span.places[0]], own if span.number == written else ()))
    return replace(
        trace,
        calls=tuple(kept),
        ops=tuple(sorted(ops, key=lambda op: (op.start, op.end))),
        reads=_reads(trace.reads, inside, moved),
    )


def done_inside(trace: Trace, stages: int, written: int) -> tuple[Call, ...]:
    """The calls of the host stage that the version defines; `stages` are as many as have marks."""
    calls = sorted(trace.calls, key=lambda c: c.index)
    spans = (span for span in _spans(calls, stages) if span.number == written)
    return tuple(calls[place] for span in spans for place in span.places)


def _spans(calls: Sequence[Call], stages: int) -> Iterator[_Span]:
    open_spans: dict[int, tuple[int, list[int]]] = {}  # by thread
    for place, call in enumerate(calls):
        begin, end = _mark(call, BEGIN, stages), _mark(call, END, stages)
        if begin is not None and call.thread not in open_spans:
            open_spans[call.thread] = begin, [place]
        elif call.thread in open_spans:
            number, places = open_spans[call.thread]
            places.append(place)
            if end == number:
                del open_spans[call.thread]
                yield _Span(number, tuple(places))


def _mark(call: Call, first: int, stages: int) -> int | None:
    """The number of the stage whose mark the call is."""
    own = (
        call.api in ("cudaMemcpy", "cudaMemcpyAsync")
        and call.copy_kind == "h2h"
        and call.source == call.target != 0
        and call.status == 0
    )
    return call.bytes - first if own and 0 <= call.bytes - first < stages else None


def _launch(calls: Sequence[Call], span: _Span, kernel: str, *, host: bool) -> Call:
    own = [calls[place] for place in span.places]
    begin, waits = own[0], [c for c in own if c.api == "cudaStreamSynchronize"]
    copied = dict.fromkeys(c.source for c in own if c.copy_kind == "d2h" and c.source)
    return Call(
        begin.index,
        "cudaLaunchKernel",
        begin.start,
        own[-1].end,
        begin.thread,
        begin.correlation,
        stream=waits[0].stream if waits and not host else 0,
        kernel=kernel,
        pointers=() if host else tuple(copied),
        sites=_outside(begin.sites),
    )


def _outside(sites: tuple[CallSite, ...]) -> tuple[CallSite, ...]:
    """The frames from the launch on."""
    place = 0
    for number, site in enumerate(sites, 1):
        if _OWN in site.function or _OWN in site.path:
            place = number
    return sites[place:]


def _from_outside(call: Call) -> Call:
    """What is shown of the memory of the host is shown where the host stage is declared."""
    return replace(call, sites=_outside(call.sites)) if call.sites and _OWN in call.sites[0].function else call


def _operation(launch: Call, own: Sequence[DeviceOp]) -> DeviceOp:
    """`own`: what ran on the device instead."""
    work = [op for op in own if op.copy_kind != "h2h"]
    start, end = min((op.start for op in work), default=launch.start), max((op.end for op in work), default=launch.end)
    return DeviceOp("kernel", start, end, launch.stream, launch.correlation, launch.kernel)


def _reads(reads: Sequence[HostRead], inside: set[int], moved: dict[int, int]) -> tuple[HostRead, ...]:
    """The program's own reads. What reading a stand-in's copies cost is added to the next one's cost: it is no time of the program
    either."""
    kept: list[HostRead] = []
    spent = 0
    for read in reads:
        if read.call in inside:
            spent += read.nanoseconds
            continue
        kept.append(replace(read, call=moved[read.call], nanoseconds=read.nanoseconds + spent))
        spent = 0
    if spent and kept:
        kept[-1] = replace(kept[-1], nanoseconds=kept[-1].nanoseconds + spent)
    return tuple(kept)
