"""What a change must conserve: launches, bytes moved, memory set, allocations, waits; each with what was declared."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stitchcuda.analysis.order.symbolic import ONE, ZERO, Poly, at_least, equal, symbol
from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.ir import HOST_WAITS, ApiKind
from stitchcuda.analysis.proof.correspond import Correspondence
from stitchcuda.analysis.proof.matching import Pairing, show, where
from stitchcuda.analysis.proof.model import Declared, May, ProofFinding, Quantity


def conserved(
    both: Correspondence, made: Pairing, declared: Declared
) -> Iterator[tuple[Quantity, ProofFinding | None]]:
    """Each quantity of one entry, and a finding where it is not what was declared."""
    rows: list[tuple[str, May, Callable[[Op], bool], bool]] = [
        ("launches", declared.launches, lambda o: o.kind is ApiKind.LAUNCH, False),
        ("library calls", declared.launches, lambda o: o.kind is ApiKind.LIBRARY_CALL, False),
        ("memsets", May.SAME, lambda o: o.kind is ApiKind.MEMSET, False),
        ("host to device copies", declared.copies, lambda o: o.copy_kind == "h2d", False),
        ("host to device bytes", declared.copies, lambda o: o.copy_kind == "h2d", True),
        ("device to host copies", declared.copies, lambda o: o.copy_kind == "d2h", False),
        ("device to host bytes", declared.copies, lambda o: o.copy_kind == "d2h", True),
        ("other copies", May.SAME, lambda o: o.kind is ApiKind.COPY and o.copy_kind not in ("h2d", "d2h"), False),
        ("allocations", declared.allocations, lambda o: o.kind is ApiKind.ALLOC, False),
        ("waits", declared.waits, lambda o: o.kind in HOST_WAITS, False),
    ]
    for name, may, wanted, in_bytes in rows:
        old, new = _total(made.before, wanted, in_bytes), _total(made.after, wanted, in_bytes)
        same = old == new
        fewer = same or _fewer(made.before, made.after, wanted)
        changed_kind = name == "allocations" and may is May.SAME and _other_allocations(made)
        allowed = (same and not changed_kind) or may is May.ANY or (may is May.FEWER and fewer)
        finding = None
        if not allowed:
            finding = _finding(
                both, made, wanted, f"{name}: {show(old)} before, {show(new)} now, which was not declared"
            )
        yield Quantity(name, show(old), show(new), allowed), finding


def _finding(both: Correspondence, made: Pairing, wanted: Callable[[Op], bool], what: str) -> ProofFinding:
    new = next((op for op in made.new if wanted(op)), None)
    if new is not None:
        return where(both, new, what)
    gone = next((op for op in made.gone if wanted(op)), None)
    return where(both, gone, what, original=True) if gone is not None else ProofFinding(what)


def _other_allocations(made: Pairing) -> bool:
    """An allocation or free became stream-ordered, or the other way round, or moved."""
    kinds = (ApiKind.ALLOC, ApiKind.FREE)
    if any(op.kind in kinds for op in (*made.gone, *made.new)):
        return True
    return any(
        made.before.ops[a].api != made.after.ops[b].api
        for a, b in made.pairs.items()
        if made.before.ops[a].kind in kinds
    )


def _nodes(line: Timeline, wanted: Callable[[Op], bool]) -> list[Op]:
    """One occurrence of each call path."""
    seen: dict[int, Op] = {}
    for op in line.ops:
        if wanted(op):
            seen.setdefault(op.node, op)
    return list(seen.values())


def _total(line: Timeline, wanted: Callable[[Op], bool], in_bytes: bool) -> Poly:
    total = ZERO
    for op in _nodes(line, wanted):
        total = total + _rounds(line, op) * (_bytes(op) if in_bytes else ONE)
    return Poly(tuple(sorted(_plain(total).items())))


def _plain(total: Poly) -> dict[tuple[str, ...], int]:
    """Symbols named alike in two runs of the analysis count as one: the host code is the same."""
    out: dict[tuple[str, ...], int] = {}
    for mono, coefficient in total.terms:
        key = tuple(sorted(show(s) for s in mono))
        out[key] = out.get(key, 0) + coefficient
    return {k: v for k, v in out.items() if v}


def _bytes(op: Op) -> Poly:
    return op.bytes if op.bytes is not None else symbol("bytes")


def _rounds(line: Timeline, op: Op) -> Poly:
    """How often a call path runs: the product of the trips of its loops."""
    rounds = ONE
    loop = op.loop
    while loop is not None:
        info = line.loops[loop]
        if not info.unrolled:
            rounds = rounds * (info.trip if info.trip is not None else symbol("rounds"))
        loop = info.parent
    return rounds


def _fewer(before: Timeline, after: Timeline, wanted: Callable[[Op], bool]) -> bool:
    old, new = _total(before, wanted, False), _total(after, wanted, False)
    return bool(at_least(old, new)) or bool(equal(old, new))
