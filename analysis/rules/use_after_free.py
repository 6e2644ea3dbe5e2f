"""Memory, a handle or a payload is used after it was released or went out of life.

## What

- A kernel, copy or library call is given memory that `cudaFree`, `cudaFreeHost`, `cudaFreeAsync`, `free` or `delete`
  released before it on the same path.
- A stream, event or graph is used after it was destroyed. Destroying one with pending work is legal (W6); naming it
  afterwards is not.
- Host memory goes out of life while device work may still use it: a local array or container that an asynchronous copy
  reads, the object whose address a host function gets (H1).

## Why

Released memory belongs to the next allocation, a destroyed handle to nobody: the call fails, or works on somebody else's
data. An asynchronous copy and a host function read their host memory when the stream gets there, long after the call
has returned (C7): by then a local variable is somebody else's stack. A copy from pageable memory may be staged before
the call returns, which is not promised (C6).

## Example

```cuda
void upload(float* d, cudaStream_t s) {
    Params params = defaults();
    cudaLaunchHostFunc(s, notify, &params);
}  // params is gone, notify has not run yet
```

## Use instead

```cuda
void upload(float* d, cudaStream_t s) {
    auto* params = new Params(defaults());
    cudaLaunchHostFunc(s, notify_and_delete, params);
}
```

Release what device work uses after the wait for that work; set pointers and handles to null when they are released.

## Fix safety

There is no automatic fix: where the last use should be, only the program's author knows.

## References

Ordering rows A2, C6, C7, H1, W6.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.lifetimes import (
    ended,
    perhaps_waited,
    places,
    released_since,
    stale_uses,
    thing,
    under,
)
from stitchcuda.analysis.order.timeline import Ending, Memory, Op

CODE = "use-after-free"


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    seen: set[tuple[object, ...]] = set()
    for stale, level in stale_uses(given, again=False):
        key = (stale.released.site, stale.released.calls, stale.kind, stale.buffer)
        if key in seen and level is not Confidence.CERTAIN:
            continue  # the first use says it; later ones repeat it
        seen.add(key)
        message = f"{stale.user} uses {thing(line, stale)}, which was {ended(stale.released)}"
        yield Finding(
            CODE, Group.CORRECTNESS, Severity.ERROR, level, stale.site, message, places(line, stale),
            condition=under(stale.conditions),
        )  # fmt: skip
    for ending in line.endings:
        yield from _ending(given, ending)


def _ending(given: RuleInput, ending: Ending) -> Iterator[Finding]:
    """Host memory died under device work: told at the call that the work was put on a stream with."""
    line = given.timeline
    buffer = line.buffers[ending.buffer]
    function = given.program.functions.get(ending.released.site.function)
    if function is None or function.language == "python":
        return
    for op in line.ops:
        if not ending.users >> op.id & 1 or not op.asynchronous:
            continue
        level = _level(op, ending, buffer.memory)
        if released_since(line, 1 << op.id, ending.before) and op.stream is not None:
            level = Confidence.POSSIBLE
        if perhaps_waited(line, op, ending.before):
            level = Confidence.POSSIBLE
        what = wording.memory(buffer)
        message = f"{wording.operation(op)}{wording.on_stream(line, op)} may still be using {what}, "
        by_call = bool(ending.released.how)
        message += f"which is {ended(ending.released)}"
        site = ending.released.site if by_call else op.site
        about = (
            Related(op.site, f"{wording.operation(op)} uses {what} here"),
            Related(ending.released.site, f"{what} is {ended(ending.released)} here"),
            *wording.call_path(op),
            *wording.allocation(buffer),
        )
        yield Finding(
            CODE, Group.CORRECTNESS, Severity.ERROR, level, site, message, wording.distinct(about, site),
            condition=wording.condition(op),
        )  # fmt: skip


def _level(op: Op, ending: Ending, memory: Memory) -> Confidence:
    payload = ending.buffer in op.payload
    if not payload and not (op.certain and (op.copy_kind or memory is not Memory.PAGEABLE)):
        return Confidence.POSSIBLE  # what a kernel does with pageable memory is seldom what it seems
    if ending.maybe >> op.id & 1 and not _pageable_copy(op, memory):
        return Confidence.POSSIBLE
    return Confidence.LIKELY if _pageable_copy(op, memory) else Confidence.CERTAIN


def _pageable_copy(op: Op, memory: Memory) -> bool:
    """C6: the copy may have waited, which nobody promises."""
    return memory is Memory.PAGEABLE and bool(op.copy_kind)


RULE = Rule(
    CODE,
    Group.CORRECTNESS,
    Severity.ERROR,
    "something is used after it was released or went out of life",
    __doc__ or "",
    check,
)
