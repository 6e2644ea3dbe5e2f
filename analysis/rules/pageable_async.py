"""Asynchronous copy from or to pageable host memory where overlap is intended.

## What

`cudaMemcpyAsync` on a created stream whose host side is ordinary memory (`malloc`, `new`, `std::vector`, a local array),
while other streams have work that the copy could run beside.

## Why

The copy engine cannot read or write pageable memory. The driver copies through a pinned buffer of its own, and for that
the call may wait: a download returns only when the data is there. Copies and kernels then run one after the other, as
if there were one stream.

## Example

```cuda
std::vector<float> host(parts * n);
for (int k = 0; k < parts; ++k) {
    cudaMemcpyAsync(device + k * n, host.data() + k * n, bytes, cudaMemcpyHostToDevice, streams[k]);
    work<<<grid, block, 0, streams[k]>>>(device + k * n);
}
```

## Use instead

```cuda
float *host;
cudaMallocHost(&host, parts * bytes);
for (int k = 0; k < parts; ++k) {
    cudaMemcpyAsync(device + k * n, host + k * n, bytes, cudaMemcpyHostToDevice, streams[k]);
    work<<<grid, block, 0, streams[k]>>>(device + k * n);
}
```

Memory that comes from elsewhere can be pinned where it is, with `cudaHostRegister`.

## Fix safety

There is no automatic fix: pinned memory is released by another function, is scarce, and makes the copy truly
asynchronous, so that code which reads the result without a wait (and happened to work) no longer does.

## References

Ordering rows C6, C7, P1.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.independence import independent
from stitchcuda.analysis.order.machine import same_stream
from stitchcuda.analysis.order.timeline import Access, Memory, Mode, Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Site

CODE = "pageable-async"
_WORK = frozenset({ApiKind.LAUNCH, ApiKind.COPY, ApiKind.LIBRARY_CALL, ApiKind.GRAPH_LAUNCH})
_STAGED = 64 * 1024  # uploads up to this size are taken over by the driver at once
_NEAR = 32  # operations on streams behind the copy that are looked at


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    if line.source != "static" or sum(s.kind is StreamKind.CREATED for s in line.streams) < 2:
        return
    told: set[Site] = set()
    for op in line.ops:
        host = _pageable_side(line, op)
        if host is None or op.site in told or _small(op):
            continue
        beside = _beside(line, op)
        if beside is not None:
            told.add(op.site)
            yield _finding(line, op, host, beside)


def _pageable_side(line: Timeline, op: Op) -> Access | None:
    if op.kind is not ApiKind.COPY or not op.asynchronous or op.copy_kind not in ("h2d", "d2h"):
        return None
    if op.graph is not None or not op.certain or op.stream is None:
        return None
    if line.streams[op.stream].kind is not StreamKind.CREATED:
        return None
    wanted = Mode.READ if op.copy_kind == "h2d" else Mode.WRITE
    found = [a for a in op.accesses if a.mode is wanted]
    if len(found) != 1:
        return None
    buffer = line.buffers[found[0].buffer]
    known = buffer.memory is Memory.PAGEABLE and buffer.origin in ("alloc", "local", "global")
    # Without an offset it may be what a pointer kept in that memory leads to.
    known = known and (found[0].range.offset is not None or bool(found[0].range.member))
    return found[0] if known else None


def _small(op: Op) -> bool:
    """An upload so small that the driver takes it over at once."""
    size = op.bytes.constant if op.bytes is not None else None
    return op.copy_kind == "h2d" and size is not None and size <= _STAGED


def _beside(line: Timeline, copy: Op) -> Op | None:
    """Work that the program puts on another stream behind the copy, and that nothing orders with it."""
    assert copy.stream is not None
    seen = 0
    for other in line.ops[copy.id + 1 :]:
        if other.stream is None or other.kind not in _WORK or not line.earlier[other.id] >> copy.id & 1:
            continue
        seen += 1
        if seen > _NEAR:
            return None
        if same_stream(line.streams[copy.stream], line.streams[other.stream]) is not False:
            continue
        if line.streams[other.stream].kind is not StreamKind.CREATED or other.thread != copy.thread:
            continue
        if other.device != copy.device or other.graph is not None or not other.certain:
            continue
        if line.may_overlap(copy.id, other.id) and independent(line, copy, other):
            return other
    return None


def _finding(line: Timeline, copy: Op, host: Access, beside: Op) -> Finding:
    buffer = line.buffers[host.buffer]
    verb = "from" if copy.copy_kind == "h2d" else "to"
    related = (
        Related(beside.site, "could run beside the copy"),
        *wording.call_path(copy),
        *wording.allocation(buffer),
    )
    return Finding(
        CODE,
        Group.PERFORMANCE,
        Severity.WARNING,
        Confidence.LIKELY,
        copy.site,
        f"`{copy.api}`{wording.on_stream(line, copy)} {verb} {wording.memory(buffer)} may make the host wait, so it does "
        f"not run beside {wording.operation(beside)}{wording.on_stream(line, beside)}: use pinned memory",
        wording.distinct(related, copy.site),
        (),
        wording.condition(copy),
    )


RULE = Rule(
    CODE,
    Group.PERFORMANCE,
    Severity.WARNING,
    "asynchronous copy from or to pageable host memory where overlap is intended",
    __doc__ or "",
    check,
)
