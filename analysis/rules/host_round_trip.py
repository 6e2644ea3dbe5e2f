"""Data goes from the device to the host and back although the host neither changes nor reads it in between.

## What

A copy brings data to host memory, and a later copy takes the same bytes back to the device of which they came. Between
the two nothing on the host reads or writes that memory. The two may stand one behind the other, or the download at the
end of one round of a loop and the upload at the beginning of the next.

## Why

The data crosses the bus twice, and the host waits for it, to get where it could have stayed.

## Example

```cuda
for (int step = 0; step < steps; ++step) {
    cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice);
    advance<<<grid, block>>>(in, out);
    cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost);
}
```

## Use instead

```cuda
cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice);
for (int step = 0; step < steps; ++step) {
    advance<<<grid, block>>>(in, out);
    std::swap(in, out);
}
cudaMemcpy(host, in, bytes, cudaMemcpyDeviceToHost);
```

Where both buffers are needed, a copy from device to device takes the place of the upload.

## Fix safety

There is no automatic fix for the text alone: which buffer takes the place of which is a matter of the whole program. The
transform `keep-resident` of `stitchcuda stitch` makes the change and proves it. The rule stays silent when the host or
code that is not here may look at the data, when the two copies belong to different devices, when the data serves to
restore what the device has changed since, and when the transfers are what is measured.

## References

Ordering rows C1, C2, C3, C7.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.copies import Transfer, parting, transfer
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.independence import may_meet
from stitchcuda.analysis.findings.rounds import Repeated, measured, repeated_loops
from stitchcuda.analysis.findings.waits import members, region_is_plain
from stitchcuda.analysis.order.alias import within
from stitchcuda.analysis.order.timeline import Memory, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Site

CODE = "host-round-trip"
_HOST = (Memory.PAGEABLE, Memory.PINNED, Memory.UNKNOWN)
_DEVICE = (Memory.DEVICE, Memory.UNKNOWN)


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    if line.source != "static" or line.cuts:
        return
    downs: dict[int, list[Transfer]] = {}
    told: set[Site] = set()
    loops: dict[int, Repeated] | None = None
    for op in line.ops:
        down = transfer(op, "d2h")
        if down is not None:
            downs.setdefault(down.host.buffer, []).append(down)
        up = transfer(op, "h2d")
        if up is None:
            continue
        source = _brought_by(line, downs.get(up.host.buffer, []), up)
        if source is None:
            continue
        site = parting(up.op, source.op)
        if site in told or not _unused_between(line, source, up) or not _worth_it(line, source, up):
            continue
        if not region_is_plain(given, source.op, up.op, [source.op, up.op]):
            continue
        if loops is None:
            loops = {loop.id: loop for loop in repeated_loops(given)}
        if op.loop is not None and (op.loop not in loops or measured(given, loops[op.loop])):
            continue
        told.add(site)
        yield _finding(line, source, up, site)


def _brought_by(line: Timeline, downs: list[Transfer], up: Transfer) -> Transfer | None:
    """The download whose bytes the upload takes back: the last one before it, in the same round or the one before."""
    for down in reversed(downs):
        if not line.earlier[up.op.id] >> down.op.id & 1:
            continue
        same = (down.op.loop, down.op.thread, down.op.device) == (up.op.loop, up.op.thread, up.op.device)
        if not same or down.op.graph is not None or not line.ordered(down.op.id, up.op.id):
            return None
        if down.op.iteration[:-1] != up.op.iteration[:-1] or {c.text for c in down.op.conditions} != {
            c.text for c in up.op.conditions
        }:
            return None
        whole = within(up.host.range, down.host.range) and within(down.host.range, up.host.range)
        return down if whole else None
    return None


def _unused_between(line: Timeline, down: Transfer, up: Transfer) -> bool:
    """Nothing touches the host's copy between download and upload."""
    host = line.buffers[up.host.buffer]
    if host.memory not in _HOST:
        return False
    for k in members(line.earlier[up.op.id] & ~line.before[down.op.id]):
        op = line.ops[k]
        if k == down.op.id:
            continue
        if any(may_meet(line, a, up.host) for a in op.accesses):
            return False
        if op.kind in (ApiKind.HOST_FUNC, ApiKind.GRAPH_LAUNCH) or (op.kind is ApiKind.COPY and op.unknown):
            return False
        if host.memory is Memory.PINNED and (op.unknown or not op.certain):
            return False
    return True


def _worth_it(line: Timeline, down: Transfer, up: Transfer) -> bool:
    """The bytes are still on the device, or could be copied there at once."""
    source, target = line.buffers[down.device.buffer], line.buffers[up.device.buffer]
    if source.memory not in _DEVICE or target.memory not in _DEVICE:
        return False
    between = [line.ops[k] for k in members(line.earlier[up.op.id] & ~line.before[down.op.id]) if k != down.op.id]
    if any(op.stream is not None and (op.unknown or not op.certain) for op in between):
        return False
    if source.id == target.id:
        return not any(_touches(line, op, up.device.buffer, writing=True) for op in between)
    kept = not any(_touches(line, op, down.device.buffer, writing=True) for op in between)
    return kept or not any(_touches(line, op, up.device.buffer, writing=False) for op in between)


def _touches(line: Timeline, op: Op, buffer: int, *, writing: bool) -> bool:
    return any(a.buffer == buffer and (a.mode is not Mode.READ or not writing) for a in op.accesses)


def _finding(line: Timeline, down: Transfer, up: Transfer, site: Site) -> Finding:
    source, target = line.buffers[down.device.buffer], line.buffers[up.device.buffer]
    host = line.buffers[up.host.buffer]
    related = (
        Related(parting(down.op, up.op), f"downloaded from {wording.buffer(source)} here"),
        *((Related(up.op.site, "uploaded here"),) if up.op.site != site else ()),
        *wording.call_path(up.op),
        *wording.allocation(host),
    )
    where = "in the round before " if down.op.iteration != up.op.iteration else ""
    return Finding(
        CODE,
        Group.PERFORMANCE,
        Severity.HINT,
        Confidence.LIKELY,
        site,
        f"`{up.op.api}` takes to {wording.buffer(target)} what `{down.op.api}` {where}brought to {wording.buffer(host)} "
        f"from {wording.buffer(source)}, and the host neither reads nor changes it in between: keep it on the device",
        wording.distinct(related, site),
        (),
        wording.condition(up.op),
    )


RULE = Rule(
    CODE,
    Group.PERFORMANCE,
    Severity.HINT,
    "data goes device -> host -> device although the host does not touch it",
    __doc__ or "",
    check,
)
