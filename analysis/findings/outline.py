"""What rules ask of a function's body again and again, collected in one walk: loops, declarations, assignments."""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Assign,
    Block,
    Declare,
    Deref,
    Expr,
    If,
    Index,
    Lambda,
    Loop,
    Member,
    Name,
    Span,
    Stmt,
    Switch,
    Try,
    children,
)


@dataclass(frozen=True, slots=True)
class Outline:
    loops: tuple[Loop, ...]  # in source order
    scopes: dict[str, tuple[Span, ...]]  # name -> the spans in which declarations of it hold
    written: dict[str, tuple[int, ...]]  # name -> where it (or a part of it) is assigned or its address is taken


def outline(body: Block) -> Outline:
    """Kept while it is asked for: bodies are shared between analyses until their text changes."""
    return _kept.get(body) or _kept.keep(body, _collect(body))


_kept: KeptWith[Outline] = KeptWith()


def _collect(body: Block) -> Outline:
    loops: list[Loop] = []
    scopes: dict[str, list[Span]] = {}
    written: dict[str, list[int]] = {}
    stack: list[tuple[Stmt | Expr, Span]] = [(body, body.span)]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, Loop):
            loops.append(node)
        elif isinstance(node, Declare):
            scopes.setdefault(node.name, []).append(scope)
        elif isinstance(node, (Assign, AddressOf)):
            name = _root(node.target if isinstance(node, Assign) else node.operand)
            if name is not None:
                written.setdefault(name, []).append(node.span[0])
        opens = isinstance(node, (If, Loop, Switch, Lambda, Try)) or (isinstance(node, Block) and node.scope)
        stack.extend((child, node.span if opens else scope) for child in children(node))
    return Outline(
        tuple(sorted(loops, key=lambda loop: loop.span)),
        {name: tuple(spans) for name, spans in scopes.items()},
        {name: tuple(places) for name, places in written.items()},
    )


def _root(target: Expr) -> str | None:
    """The variable that an lvalue is a part of."""
    while isinstance(target, (Index, Member, Deref)):
        target = target.operand if isinstance(target, Deref) else target.base
    return target.name if isinstance(target, Name) else None
