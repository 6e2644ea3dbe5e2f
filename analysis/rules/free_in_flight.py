"""Memory is released while unordered device work may still use it.

## What

`cudaFreeAsync` on a stream that is not ordered after every use of the memory; `cudaFree`, `cudaFreeHost` or
`cudaHostUnregister` with uses that the host has not waited for.

## Why

A stream-ordered free hands the memory to the next allocation as soon as its own stream gets there (A2): work of another
stream then reads and writes somebody else's data. `cudaFree` and `cudaFreeHost` wait for the device in practice, but the
documentation only says that they may (W8), so relying on it is reported as `possible`; `cudaHostUnregister` of memory
that the program goes on to reuse is `likely`. `cudaFree` of a stream-ordered allocation does not wait.

## Example

```cuda
cudaMallocAsync(&tmp, bytes, a);
fill<<<grid, block, 0, a>>>(tmp);
cudaFreeAsync(tmp, b);  // b does not wait for a
```

## Use instead

```cuda
cudaMallocAsync(&tmp, bytes, a);
fill<<<grid, block, 0, a>>>(tmp);
cudaFreeAsync(tmp, a);
```

## Fix safety

For `cudaFreeAsync` the fix frees on the stream that used the memory last; when several streams use it, it orders the
free behind the use with an event instead. For the other calls it waits for the using stream first, which stalls the host
there.

## References

Ordering rows A1, A2, A3, C7, W1, W2, W6, W8.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Fix, Group, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.fixes import free_on_stream, wait_for_event, wait_on_host
from stitchcuda.analysis.findings.lookup import memory_key
from stitchcuda.analysis.findings.race import DEVICE_WORK, Race, race_finding, races, weaker
from stitchcuda.analysis.order.timeline import Access, Mode, Op
from stitchcuda.analysis.program.ir import RELEASES, ApiKind

CODE = "free-in-flight"
_USES = DEVICE_WORK | {ApiKind.PREFETCH}


def check(given: RuleInput) -> Iterator[Finding]:
    for race in races(given.program, given.timeline, _USES, RELEASES, _any_use):
        yield _finding(given, race)


def _any_use(earlier: Op, first: Access, later: Op, second: Access) -> bool:
    return second.mode is not Mode.READ


def _finding(given: RuleInput, race: Race) -> Finding:
    line = given.timeline
    what = wording.buffer(race.buffer)
    verb = "unregisters" if race.later.kind is ApiKind.UNREGISTER else "releases"
    message = (
        f"{wording.operation(race.later)}{wording.on_stream(line, race.later)} {verb} {what} while "
        f"{wording.operation(race.earlier)}{wording.on_stream(line, race.earlier)} may still be using it"
    )
    return race_finding(CODE, race, weaker(race.confidence, _promise(race)), message, "uses", _fixes(given, race))


def _promise(race: Race) -> Confidence:
    """W8: how much the releasing call itself waits in practice."""
    if race.later.stream is not None or race.buffer.pooled:
        return Confidence.CERTAIN  # A2 applies in full
    if race.later.kind is ApiKind.UNREGISTER:
        return Confidence.LIKELY
    if None not in (race.earlier.device, race.later.device) and race.earlier.device != race.later.device:
        return Confidence.LIKELY  # the wait is for the current device only
    return Confidence.POSSIBLE


def _fixes(given: RuleInput, race: Race) -> tuple[Fix, ...]:
    if race.later.stream is None:
        return wait_on_host(given, race)
    users = {
        op.stream
        for op in given.timeline.ops
        if op.kind in _USES
        and any(memory_key(given.timeline.buffers[a.buffer]) == memory_key(race.buffer) for a in op.accesses)
    }
    moved = free_on_stream(given, race) if len(users) == 1 else ()
    return moved or wait_for_event(given, race)


RULE = Rule(
    CODE,
    Group.CORRECTNESS,
    Severity.ERROR,
    "memory is released while device work may still use it",
    __doc__ or "",
    check,
)
