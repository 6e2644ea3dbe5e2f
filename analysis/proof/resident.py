"""Copies that are gone: what a host buffer carried from one device buffer to another may stay on the device.

A download and the upload that follows it are an identity when both move all bytes of all three buffers, nothing else
writes to the host buffer, and the host looks at it nowhere. The last is shown from the text: the variable that names the
buffer is followed through returns, arguments and calls, and every mention of it must be its declaration, one of the two
copies, or handing it on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stitchcuda.analysis.order.alias import alias, covers_all
from stitchcuda.analysis.order.timeline import Access, Certainty, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import Api, ApiKind, Call, Declare, Expr, Member, Name, Return, walk
from stitchcuda.analysis.proof.correspond import Correspondence, Side, Trees, line_of, side_of
from stitchcuda.analysis.proof.matching import Pairing, show, where
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.proof.shapes import followed, pure_parts, shape_of, vector_declaration


@dataclass(frozen=True, slots=True)
class Carry:
    """The value of device buffer `source` reached device buffer `target` by a download and an upload that are gone."""

    source: int
    target: int
    download: int
    upload: int


@dataclass
class Residency:
    carries: list[Carry] = field(default_factory=list)
    failed: list[ProofFinding] = field(default_factory=list)
    unknown: list[ProofFinding] = field(default_factory=list)

    def between(self, source: int, target: int) -> tuple[Carry, Carry] | None:
        """The first and the last carry on the way from one buffer to another."""
        for first in self.carries:
            if first.source != source:
                continue
            if first.target == target:
                return first, first
            further = self.between(first.target, target)
            if further is not None:
                return first, further[1]
        return None


def resident(both: Correspondence, made: Pairing) -> Residency:
    """What follows from the copies that are gone."""
    found = Residency()
    line = made.before
    copies = [op for op in made.gone if op.kind is ApiKind.COPY]
    downloads = [op for op in copies if op.copy_kind == "d2h"]
    uploads = [op for op in copies if op.copy_kind == "h2d"]
    seen: set[object] = set()
    for op in copies:
        if op not in downloads and op not in uploads:
            found.failed.append(where(both, op, "this copy is gone", original=True))
    for upload in uploads:
        carry = _carry(both, made, upload, downloads, found)
        if carry is not None:
            found.carries.append(carry)
    for op in downloads:
        host = _access(op, Mode.WRITE)
        for other in line.ops:
            if other.id in made.pairs and host is not None and _reads(line, other, host):
                what = "reads data that is no longer copied to the host"
                found.failed.append(where(both, made.after.ops[made.pairs[other.id]], what))
    for op in (*downloads, *uploads):
        if op.site not in seen:
            seen.add(op.site)
            found.unknown += _host_uses(both, op)
    return found


def _access(op: Op, mode: Mode) -> Access | None:
    touched = [a for a in op.accesses if a.mode is mode]
    return touched[0] if len(touched) == 1 else None


def _reads(line: Timeline, op: Op, host: Access) -> bool:
    return any(
        a.mode is not Mode.WRITE and alias(line.buffers[a.buffer], line.buffers[host.buffer]) is not False
        for a in op.accesses
    )


def _carry(both: Correspondence, made: Pairing, upload: Op, downloads: list[Op], found: Residency) -> Carry | None:
    """The download whose value an upload brought back; notes why there is none."""
    line = made.before
    src, dst = _access(upload, Mode.READ), _access(upload, Mode.WRITE)
    if src is None or dst is None:
        found.unknown.append(where(both, upload, "it is not known what this copy moved", original=True))
        return None
    writers = [
        op
        for op in line.ops
        if any(
            a.mode is not Mode.READ and alias(line.buffers[a.buffer], line.buffers[src.buffer]) is not False
            for a in op.accesses
        )
        and (line.earlier[upload.id] >> op.id & 1)
    ]
    if len(writers) != 1 or writers[0] not in downloads:
        known = any(op.kind is ApiKind.COPY and op.copy_kind == "d2h" for op in writers)
        bucket = found.unknown if known else found.failed
        bucket.append(where(both, upload, "this copy brought data to the device and is gone", original=True))
        return None
    download = writers[0]
    out, back = _access(download, Mode.READ), _access(download, Mode.WRITE)
    whole = (
        out is not None
        and back is not None
        and back.buffer == src.buffer
        and all(
            a.certainty is Certainty.MUST and covers_all(a.range, line.buffers[a.buffer]) for a in (src, dst, out, back)
        )
        and show(download.bytes) == show(upload.bytes)
        and download.bytes is not None
    )
    rounds = (
        download.conditions == upload.conditions
        and download.loop == upload.loop
        and download.iteration == upload.iteration
        and line.ordered(download.id, upload.id)
        and download.certain
        and upload.certain
    )
    if not whole or not rounds or out is None:
        what = "not shown that this copy brings back exactly what was copied to the host"
        found.unknown.append(where(both, upload, what, original=True))
        return None
    return Carry(out.buffer, dst.buffer, download.id, upload.id)


# ----------------------------------------------------------------------------------------------- the host looks nowhere


def _host_uses(both: Correspondence, op: Op) -> list[ProofFinding]:
    """Mentions of the host buffer of a copy that are more than handing it on."""
    program = both.before.program
    function = program.functions[op.site.function]
    call = (
        next((n for n in walk(function.body) if isinstance(n, Api) and n.span == op.site.span), None)
        if function.body
        else None
    )
    expr = call.role("dst" if op.copy_kind == "d2h" else "src") if call is not None else None
    name = _variable(expr)
    if name is None:
        return [where(both, op, "it is not known which variable this copy used", original=True)]
    trees = Trees(both.before)
    sides: dict[str, Side] = {}
    waiting, seen = [(function.uid, name)], {(function.uid, name)}
    found: list[ProofFinding] = []
    while waiting:
        uid, name = waiting.pop()
        side = sides.get(uid)
        if side is None:
            side = sides[uid] = side_of(both.before, trees, program.functions[uid])
        for step in _follow(both, side, name):
            if isinstance(step, ProofFinding):
                found.append(step)
            elif step not in seen:
                seen.add(step)
                waiting.append(step)
    return found


def _variable(expr: Expr | None) -> str | None:
    """`v` or `v.data()`."""
    if isinstance(expr, Call) and isinstance(expr.callee, Member) and expr.callee.name == "data" and not expr.args:
        expr = expr.callee.base
    return expr.name if isinstance(expr, Name) else None


def _follow(both: Correspondence, side: Side, name: str) -> Iterator[ProofFinding | tuple[str, str]]:
    function = side.function
    program = both.before.program
    declared = [p for p in function.params if p.name == name]
    if declared:
        yield from _callers(both, side, name)
    elif not any(isinstance(n, Declare) and n.name == name for nodes in side.nodes.values() for n in nodes):
        yield _use(both, side, name, function.base)
        return
    opening = function.base + (function.body.span[0] if function.body is not None else 0)
    for token in side.body.glue:
        if token.text == name and token.start >= opening:
            yield _use(both, side, name, token.start)
    for piece in side.body.pieces:
        if name not in piece.words:
            continue
        at = next(t.start for t in piece.tokens if t.text == name)
        shape = shape_of(program, side, piece)
        node = shape.node
        if isinstance(node, Api) and node.kind is ApiKind.COPY and _variable_in(node, name):
            continue
        if (
            isinstance(node, Declare)
            and node.name == name
            and vector_declaration(node)
            and piece.words.count(name) == 1
        ):
            continue
        if isinstance(node, Return) and isinstance(node.value, Name) and node.value.name == name:
            yield from _receivers(both, side)
            continue
        call = node.init if isinstance(node, Declare) else node
        if isinstance(call, Call) and pure_parts(call.args):
            uid = followed(program, function.path, call)
            steps = _handed_on(both, call, uid, name)
            own = isinstance(node, Declare) and node.name == name
            if uid is not None and (own or steps) and piece.words.count(name) == len(steps) + own:
                yield from steps
                continue
        yield _use(both, side, name, at)


def _variable_in(call: Api, name: str) -> bool:
    mentions = [n for role, value in call.roles for n in walk(value) if isinstance(n, Name) and n.name == name]
    return len(mentions) == 1 and name in (_variable(call.role("dst")), _variable(call.role("src")))


def _handed_on(both: Correspondence, call: Call, uid: str | None, name: str) -> list[tuple[str, str]]:
    if uid is None:
        return []
    params = both.before.program.functions[uid].params
    return [
        (uid, params[k].name)
        for k, arg in enumerate(call.args)
        if isinstance(arg, Name) and arg.name == name and k < len(params)
    ]


def _call_sites(both: Correspondence, side: Side) -> Iterator[tuple[Side, int, Declare | Call | None]]:
    """Where a function is called: where the statement begins, and the call or declaration that it is (None: anything
    else, such as a call of a method, a template or in a condition)."""
    program = both.before.program
    trees = Trees(both.before)
    uid = side.function.uid
    for caller in sorted(program.callers.get(uid, ())):
        outer = side_of(both.before, trees, program.functions[caller])
        calls = {
            id(n) for nodes in (*outer.nodes.values(), outer.glue_nodes) for n in nodes if _calls(both, outer, n, uid)
        }
        if not calls or any(id(n) in calls for n in outer.glue_nodes):
            yield outer, outer.function.base, None
        for piece, nodes in outer.nodes.items():
            if not any(id(n) in calls for n in nodes):
                continue
            node = shape_of(program, outer, piece).node
            inner = node.init if isinstance(node, Declare) else node
            yield outer, piece.span[0], node if isinstance(node, (Declare, Call)) and id(inner) in calls else None


def _calls(both: Correspondence, outer: Side, node: object, uid: str) -> bool:
    return isinstance(node, Call) and followed(both.before.program, outer.function.path, node) == uid


def _receivers(both: Correspondence, side: Side) -> Iterator[ProofFinding | tuple[str, str]]:
    """The variables of callers that take what a function returns."""
    if side.function.uid in both.before.program.entries:
        yield _use(both, side, side.function.name, side.function.base)
    for outer, at, node in _call_sites(both, side):
        if isinstance(node, Declare):
            yield outer.function.uid, node.name
        else:
            yield _use(both, outer, side.function.name, at)


def _callers(both: Correspondence, side: Side, name: str) -> Iterator[ProofFinding | tuple[str, str]]:
    """The variables that callers pass for a parameter."""
    if side.function.uid in both.before.program.entries:
        yield _use(both, side, name, side.function.base)
    position = next(k for k, p in enumerate(side.function.params) if p.name == name)
    for outer, at, node in _call_sites(both, side):
        call = node.init if isinstance(node, Declare) else node
        arg = call.args[position] if isinstance(call, Call) and position < len(call.args) else None
        if isinstance(arg, Name):
            yield outer.function.uid, arg.name
        else:
            yield _use(both, outer, name, at)


def _use(both: Correspondence, side: Side, name: str, offset: int) -> ProofFinding:
    path = side.function.path
    what = f"the host may use `{name}` here, whose copies are gone"
    return ProofFinding(what, path, line_of(both.before, path, offset), True)
