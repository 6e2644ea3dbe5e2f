"""Many small copies in a loop that one larger or packed copy could replace.

## What

- A loop copies a few bytes in each round, and the next round goes on where this one ended (or a fixed distance further),
  on the host and on the device; or
- each round of a loop with device work makes three or more copies of a few bytes in a row, in one direction: single
  variables, or members of one structure.

## Why

A copy costs several microseconds however small it is, and a synchronous one stalls the host. A thousand copies of four
bytes take milliseconds; one copy of four thousand bytes takes as long as one of them.

## Example

```cuda
for (int i = 0; i < n; ++i) {
    host[i] = start(i);
    cudaMemcpy(device + i, host + i, sizeof(float), cudaMemcpyHostToDevice);
}
```

## Use instead

```cuda
for (int i = 0; i < n; ++i) host[i] = start(i);
cudaMemcpy(device, host, n * sizeof(float), cudaMemcpyHostToDevice);
```

Rows that lie apart go with one `cudaMemcpy2D`; values that belong together go into one structure.

## Fix safety

There is no automatic fix: the loop, or the types, change with it. The rule looks at copies of known size only, and stays
silent when device work or the host uses the pieces one by one, and when the copies are what is measured.

## References

Ordering rows C1, C2, C3, C7.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.copies import Transfer, transfer
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.rounds import Repeated, always, measured, repeated_loops, twins
from stitchcuda.analysis.order.symbolic import Poly
from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.ir import HOST_WAITS, ApiKind, Site

CODE = "small-transfers"
_SMALL = 16 * 1024  # bytes of a piece
_FEW_BYTES = 1024  # of a copy that could be packed with others
_SCALAR = 64
_ROW = 3  # copies one behind the other
_WORK = frozenset({ApiKind.LAUNCH, ApiKind.LIBRARY_CALL, ApiKind.GRAPH_LAUNCH})


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    if line.source != "static" or not any(_small(op, _SMALL) and op.loop is not None for op in line.ops):
        return
    told: set[Site] = set()
    for loop in repeated_loops(given):
        for found in (*_pieces(given, loop), *_rows(given, loop)):
            if found.site not in told and not measured(given, loop):
                told.add(found.site)
                yield found


def _small(op: Op, limit: int) -> bool:
    size = op.bytes.constant if op.kind is ApiKind.COPY and op.bytes is not None else None
    return size is not None and 0 < size <= limit and op.copy_kind in ("h2d", "d2h") and op.graph is None


def _pieces(given: RuleInput, loop: Repeated) -> Iterator[Finding]:
    """Copies that go through host and device memory in steps."""
    for op in loop.rounds[0]:
        if len(op.iteration) != loop.depth or not _small(op, _SMALL) or not always(loop, op):
            continue
        same = twins(loop, op)
        if len(same) < len(loop.rounds):
            continue
        first, next_ = transfer(op, op.copy_kind), transfer(same[1], op.copy_kind)
        if first is None or next_ is None or op.stream != same[1].stream:
            continue
        step = _step(first, next_)
        if step is not None and not _used_in_pieces(loop, first, {o.id for o in same}):
            yield _piece_finding(given.timeline, loop, first, step)


def _step(first: Transfer, next_: Transfer) -> tuple[int, int] | None:
    """By how many bytes the copy moves on from round to round, on the host and on the device."""
    if (first.host.buffer, first.device.buffer) != (next_.host.buffer, next_.device.buffer):
        return None
    size = first.op.bytes.constant if first.op.bytes is not None else None
    if size is None or next_.op.bytes is None or next_.op.bytes.constant != size:
        return None
    host = _distance(first.host.range.offset, next_.host.range.offset)
    device = _distance(first.device.range.offset, next_.device.range.offset)
    if host is None or device is None or host < size or device < size:
        return None
    return host, device


def _distance(first: Poly | None, next_: Poly | None) -> int | None:
    """Of one round to the next, when it is a fixed number: `4*(1+gap)` for two rounds that are some rounds apart."""
    if first is None or next_ is None:
        return None
    apart = next_ - first
    one = dict(apart.terms).get((), 0)
    rest = [(names, count) for names, count in apart.terms if names]
    if len(rest) > 1 or any(len(names) != 1 or count != one for names, count in rest):
        return None
    return one or None


def _used_in_pieces(loop: Repeated, piece: Transfer, own: set[int]) -> bool:
    """Something in the loop needs a piece when it has come."""
    target = piece.device.buffer if piece.op.copy_kind == "h2d" else piece.host.buffer
    source = piece.host.buffer if piece.op.copy_kind == "h2d" else piece.device.buffer
    for ops in loop.rounds:
        for op in ops:
            if op.id in own:
                continue
            if op.stream is not None and (op.unknown or not op.certain):
                return True
            if any(a.buffer == target for a in op.accesses):
                return True
            # What the host puts there piece by piece can be put there before; what the device makes cannot be waited for.
            if op.stream is not None and any(a.buffer == source for a in op.accesses):
                return True
    return False


def _rows(given: RuleInput, loop: Repeated) -> Iterator[Finding]:
    """Copies of a few bytes one behind the other."""
    line = given.timeline
    if not any(op.kind in _WORK for op in loop.rounds[0]):
        return
    row: list[Op] = []
    for op in (*loop.rounds[0], None):
        if op is not None and op.stream is None and op.kind not in HOST_WAITS:
            continue
        fits = op is not None and len(op.iteration) == loop.depth and _small(op, _FEW_BYTES) and always(loop, op)
        if fits and op is not None and (not row or (op.copy_kind, op.stream) == (row[0].copy_kind, row[0].stream)):
            row.append(op)
            continue
        if len({o.site for o in row}) >= _ROW and _belong_together(line, row):
            yield _row_finding(line, loop, row)
        row = [op] if fits and op is not None else []


def _belong_together(line: Timeline, row: list[Op]) -> bool:
    """Members of one structure on one of the sides, or single variables."""
    if all(o.bytes is not None and (o.bytes.constant or 0) <= _SCALAR for o in row):
        return True
    sides = [{a.buffer for a in op.accesses} for op in row]
    return bool(set.intersection(*sides))


def _piece_finding(line: Timeline, loop: Repeated, piece: Transfer, step: tuple[int, int]) -> Finding:
    size = piece.op.bytes.constant if piece.op.bytes is not None else None
    instead = "one copy behind the loop" if piece.op.copy_kind == "h2d" else "one copy before the loop"
    if step != (size, size):
        instead = "one `cudaMemcpy2D`"
    message = (
        f"`{piece.op.api}` copies {size} bytes in every iteration, from {wording.buffer(line.buffers[_from(piece)])} to "
        f"{wording.buffer(line.buffers[_to(piece)])} piece by piece: {instead} does the same"
    )
    return _finding(line, loop, piece.op, message, ())


def _row_finding(line: Timeline, loop: Repeated, row: list[Op]) -> Finding:
    total = sum(o.bytes.constant or 0 for o in row if o.bytes is not None)
    message = (
        f"{len(row)} copies in a row in every iteration, of {total} bytes together, where one of a structure that holds "
        "them all would do"
    )
    others = tuple(Related(o.site, "and this one") for o in row[1:])
    return _finding(line, loop, row[0], message, others)


def _from(piece: Transfer) -> int:
    return piece.host.buffer if piece.op.copy_kind == "h2d" else piece.device.buffer


def _to(piece: Transfer) -> int:
    return piece.device.buffer if piece.op.copy_kind == "h2d" else piece.host.buffer


def _finding(line: Timeline, loop: Repeated, op: Op, message: str, others: tuple[Related, ...]) -> Finding:
    related = (*others, Related(line.loops[loop.id].site, "the loop"), *wording.call_path(op))
    return Finding(
        CODE,
        Group.PERFORMANCE,
        Severity.HINT,
        Confidence.LIKELY,
        op.site,
        message,
        wording.distinct(related, op.site),
        (),
        wording.condition(op),
    )


RULE = Rule(
    CODE,
    Group.PERFORMANCE,
    Severity.HINT,
    "many small copies in a loop that one larger or packed copy could replace",
    __doc__ or "",
    check,
)
