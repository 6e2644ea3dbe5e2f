"""Calls that a change adds or takes away may give values to, or end, only what the change itself brought.

`cudaGetDevice(&device)` writes to a variable of the host; an event that is made anew forgets what was recorded, and one
that is destroyed can be waited for no more. Timelines name events by their variable, and show none of this.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.program.ir import AddressOf, Api, ApiKind, Declare, Expr, Name, walk
from stitchcuda.analysis.proof.correspond import Changed, Correspondence, Side, line_of
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.proof.pieces import Piece
from stitchcuda.analysis.proof.shapes import shape_of

_LIVES = frozenset({ApiKind.EVENT_CREATE, ApiKind.EVENT_DESTROY})


def strange_handles(both: Correspondence) -> Iterator[ProofFinding]:
    """Findings for calls of one version that reach a variable of the other."""
    for changed in both.changed.values():
        gone, come = _own(changed)
        for p, q in changed.rows:
            if p is not None and q is None:
                yield from _call(both, changed.before, p, gone, come, original=True)
            elif q is not None and p is None:
                yield from _call(both, changed.after, q, come, gone, original=False)
    for side in both.added.values():
        fresh = _declared(side)
        for piece in side.body.pieces:
            yield from _call(both, side, piece, fresh, set(), original=False)


def _own(changed: Changed) -> tuple[set[str], set[str]]:
    """The names that only one version declares or mentions."""
    words = [{w for p in side.body.pieces for w in p.words} for side in (changed.before, changed.after)]
    return _declared(changed.before) - words[1], _declared(changed.after) - words[0]


def _declared(side: Side) -> set[str]:
    return {n.name for nodes in (*side.nodes.values(), side.glue_nodes) for n in nodes if isinstance(n, Declare)}


def _call(
    both: Correspondence, side: Side, piece: Piece, own: set[str], other: set[str], *, original: bool
) -> Iterator[ProofFinding]:
    analysis = both.before if original else both.after
    node = shape_of(analysis.program, side, piece).node
    if not isinstance(node, Api):
        return
    wanted = [v for role, v in node.roles if role == "out"] if node.kind in (ApiKind.NEUTRAL, *_LIVES) else []
    if node.kind is ApiKind.EVENT_DESTROY:
        wanted = [v for _, v in node.roles]
    for value in wanted:
        name = _name(value)
        line = line_of(analysis, side.function.path, piece.span[0])
        if name is None or name not in own:
            what = f"`{node.name}` reaches a variable that the other version uses, too"
            yield ProofFinding(what, side.function.path, line, original)
        elif node.kind in _LIVES and not _once(side, name, piece, node):
            what = f"`{name}` is not made before all uses and destroyed behind them, once each"
            yield ProofFinding(what, side.function.path, line, original)


def _name(value: Expr) -> str | None:
    inner = value.operand if isinstance(value, AddressOf) else value
    return inner.name if isinstance(inner, Name) else None


def _once(side: Side, name: str, piece: Piece, node: Api) -> bool:
    """The event is made first and destroyed last, in one run of statements or at the ends of one block."""
    users = [p for p in side.body.pieces if name in p.words]
    calls = [n for p in users for n in side.nodes.get(p, []) if isinstance(n, Api) and n.kind in _LIVES]
    calls = [n for n in calls if any(isinstance(m, Name) and m.name == name for m in walk(n))]
    if [c.kind for c in calls] != [ApiKind.EVENT_CREATE, ApiKind.EVENT_DESTROY]:
        return False
    used = [p for p in users if not _declares(side, p, name)]
    made, ended = (next((p for p in used if c in side.nodes.get(p, [])), None) for c in calls)
    if made is None or ended is None:
        return False
    return made is used[0] and ended is used[-1] and _block(side, made) == _block(side, ended)


def _declares(side: Side, piece: Piece, name: str) -> bool:
    nodes = side.nodes.get(piece, [])
    return bool(nodes) and isinstance(nodes[0], Declare) and nodes[0].name == name


def _block(side: Side, piece: Piece) -> tuple[int, ...]:
    """Where the braces around a statement open."""
    opened: list[int] = []
    for token in side.body.glue:
        if token.start >= piece.span[0]:
            break
        if token.text == "{":
            opened.append(token.start)
        elif token.text == "}" and opened:
            opened.pop()
    return tuple(opened)
