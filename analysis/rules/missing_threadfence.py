"""Data published to other blocks without a memory fence.

## What

A thread writes data to global memory and then tells other blocks that it is there: it takes a ticket with an atomic (the
last block adds up what the others left), counts itself in at a hand-made barrier, or sets a flag that others poll. No
`__threadfence()` stands between the two, and another block reads the data.

## Why

Writes of one thread may become visible to other blocks in another order than they were made (D5). The ticket can arrive
before the data, and the last block then adds up old values. `__syncthreads()` orders memory within the block only, and
atomics like `atomicAdd` are relaxed: they order nothing but themselves. `volatile` does not help either.

## Example

```cuda
partial[blockIdx.x] = sum;
unsigned done = atomicInc(&ticket, gridDim.x);
if (done == gridDim.x - 1) total = addUp(partial);   // may miss what other blocks wrote
```

## Use instead

```cuda
partial[blockIdx.x] = sum;
__threadfence();
unsigned done = atomicInc(&ticket, gridDim.x);
if (done == gridDim.x - 1) total = addUp(partial);
```

Or `cuda::atomic_ref` with `cuda::memory_order_acq_rel` at device scope, which needs no fence.

## Fix safety

The fix inserts `__threadfence()` before the statement that publishes. It cannot make a correct program wrong; it costs
the thread a wait for its own writes.

## References

Ordering row D5. CUDA programming guide, "Memory Fence Functions".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.finding import (
    Confidence,
    Finding,
    Fix,
    Group,
    KernelInput,
    KernelRule,
    Related,
    Severity,
)
from stitchcuda.analysis.findings.kernel_wording import written
from stitchcuda.analysis.findings.shapes import agreed
from stitchcuda.analysis.findings.wording import called_from
from stitchcuda.analysis.kernel.across import crossings, meets_other_block, of_one_block, ordered_between, plain
from stitchcuda.analysis.kernel.conditions import Conditions, conditions_of
from stitchcuda.analysis.kernel.model import Access, KernelTrace, Memory, Mode
from stitchcuda.analysis.kernel.sharing import Grid
from stitchcuda.analysis.kernel.spinning import polls
from stitchcuda.analysis.kernel.trace import KernelTraces, kernel_traces
from stitchcuda.analysis.program.ir import Site

CODE = "missing-threadfence"
_MOST = 60  # accesses that are compared
_OBJECTS = ("store", "exchange", "fetch_add", "fetch_sub", "fetch_or")


@dataclass(frozen=True, slots=True)
class _Publication:
    """`data` is written, `signal` tells others, and `use` reads the data in another block."""

    data: Access
    signal: Access
    use: Access


def check(given: KernelInput) -> Iterator[Finding]:
    traces = kernel_traces(given.program, given.kernel, given.sources, given.guesses)
    conditions = conditions_of(given.program)
    found = [_found(given, conditions, traces, t) for t in traces.traces if not t.broken]
    yield from agreed(traces, found)


def _found(given: KernelInput, conditions: Conditions, traces: KernelTraces, trace: KernelTrace) -> dict[Site, Finding]:
    grid = Grid(traces, conditions, trace)
    if all(grid.several(axis) is False for axis in "xyz"):
        return {}
    out: dict[Site, Finding] = {}
    relaxed = {a.at for a in trace.accesses if _relaxed(given, a)}
    for published in (*_flags(trace, conditions, relaxed), *_tickets(trace, relaxed)):
        if published.signal.site not in out:
            out[published.signal.site] = _finding(given, published)
    return out


def _finding(given: KernelInput, published: _Publication) -> Finding:
    data, signal, use = published.data, published.signal, published.use
    how = f"`{signal.atomic}`" if signal.atomic else f"setting `{_named(signal)}`"
    related = (
        Related(data.site, f"`{_named(data)}` is written here"),
        Related(use.site, f"another block reads `{_named(use)}` here"),
        *called_from(signal.calls, signal.site),
    )
    fix = _fix(given, signal)
    return Finding(
        CODE,
        Group.DEVICE,
        Severity.ERROR,
        Confidence.LIKELY,
        signal.site,
        f"{how} tells other blocks that `{_named(data)}` is written, with no `__threadfence()` before it: they may see "
        "the signal and not the data",
        related,
        (fix,) if fix is not None else (),
    )


def _named(access: Access) -> str:
    return f"{access.buffer.name}.{access.field}" if access.field else access.buffer.name


def _fix(given: KernelInput, signal: Access) -> Fix | None:
    body = edits.body_of(given, signal.site.function)
    around = edits.statements(body, signal.site.span) if body is not None else []
    if body is None or not around:
        return None
    edit = edits.before(body, around[-1][0].span, ["__threadfence();"])
    title = "Insert `__threadfence()` before it (the thread waits until its writes are visible to all blocks)"
    return Fix(title, (edit,), preferred=True)


# ------------------------------------------------------------------------------------------------------------ patterns


def _tickets(trace: KernelTrace, relaxed: set[int]) -> Iterator[_Publication]:
    """The last block to take a ticket goes on to read what all have written."""
    tickets = [a for a in trace.accesses if a.at in relaxed]
    if not tickets or trace.uses_locks:
        return
    for data, use in crossings(trace):
        taken = [a for a in tickets if a.at < use.at and a.buffer != use.buffer]
        if not taken or data.at > taken[-1].at or not _elected(taken[-1], use):
            continue
        if not ordered_between(trace, data.at, taken[-1].at):
            yield _Publication(data, taken[-1], use)


def _elected(ticket: Access, use: Access) -> bool:
    """What is read stands under a condition that the ticket did not stand under."""
    before = {(g.key, g.holds) for g in ticket.guards}
    return any((g.key, g.holds) not in before and not g.loop for g in use.guards)


def _flags(trace: KernelTrace, conditions: Conditions, relaxed: set[int]) -> Iterator[_Publication]:
    """Others poll what is set."""
    waits = polls(trace, conditions)
    flags = {(a.buffer, a.field) for a in waits}
    asked = {a.site for a in waits}
    signals = [
        a
        for a in trace.accesses
        if (a.buffer, a.field) in flags and a.site not in asked and (a.at in relaxed or plain(a, Mode.WRITE))
    ]
    if not signals:
        return
    begin = min(a.at for a in waits)
    for data, use in (*_swapped(trace), *crossings(trace), *_from_one(trace), *_chained(trace, waits, signals)):
        signal = next((s for s in signals if s.at > data.at), None)
        if signal is None or (data.buffer, data.field) in flags or use.at < begin:
            continue
        if not ordered_between(trace, data.at, signal.at):
            yield _Publication(data, signal, use)


def _swapped(trace: KernelTrace) -> Iterator[tuple[Access, Access]]:
    """In a chain of blocks the read of what the block before has written comes first."""
    reads = [a for a in trace.accesses if plain(a, Mode.READ)][:_MOST]
    for data in [a for a in trace.accesses if plain(a, Mode.WRITE)][:_MOST]:
        for use in reads:
            if use.at < data.at and meets_other_block(data, use):
                yield data, use


def _chained(trace: KernelTrace, waits: list[Access], signals: list[Access]) -> Iterator[tuple[Access, Access]]:
    """Each block polls the flag of one before it and sets its own: the data that is read is as many elements away from
    what is written. Which block it is may be a ticket."""
    steps = {step for wait in waits for signal in signals if (step := _elements_between(wait, signal))}
    if not steps:
        return
    reads = [a for a in trace.accesses if plain(a, Mode.READ) and a.at > waits[0].at][:_MOST]
    for data in [a for a in trace.accesses if plain(a, Mode.WRITE)][:_MOST]:
        for use in reads:
            if use.at < data.at and _elements_between(use, data) in steps:
                yield data, use


def _elements_between(first: Access, second: Access) -> int | None:
    """How many elements of one array the one is behind the other; None where that is not a fixed number."""
    if first.buffer != second.buffer or first.field != second.field or not first.size or first.size != second.size:
        return None
    distance = (second.offset - first.offset).constant
    moving = second.offset.symbols and not second.offset.unknown
    return distance // first.size if moving and distance and distance % first.size == 0 else None


def _from_one(trace: KernelTrace) -> Iterator[tuple[Access, Access]]:
    """One block writes what all read."""
    reads = [a for a in trace.accesses if plain(a, Mode.READ) and not of_one_block(a)][:_MOST]
    for data in [a for a in trace.accesses if plain(a, Mode.WRITE) and of_one_block(a)][:_MOST]:
        for use in reads:
            if use.buffer == data.buffer and use.at > data.at:
                yield data, use


def _relaxed(given: KernelInput, access: Access) -> bool:
    """An atomic of CUDA C++, which orders nothing else, or one of an atomic object that asks for no order."""
    if access.mode is not Mode.ATOMIC or access.buffer.memory is not Memory.GLOBAL:
        return False
    if access.atomic.startswith("atomic"):
        return True
    return access.atomic in _OBJECTS and "memory_order_relaxed" in written(
        given.program, given.sources, access.site, 400
    )


RULE = KernelRule(
    CODE,
    Group.DEVICE,
    Severity.ERROR,
    "data is published to other blocks without a memory fence",
    __doc__ or "",
    check,
)
