"""Parameter packs: `f(args...)` becomes `f(args#0, args#1)` once the call says how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr

EXPANSION = "pack expansion"  # what the frontend calls `pattern...`


def pack_name(parameter: str) -> str | None:
    """The name of the pack that a parameter declares; None for an ordinary one."""
    return parameter.removesuffix("...") if parameter.endswith("...") else None


def element(pack: str, position: int) -> str:
    return f"{pack}#{position}"


def expanded(args: tuple[Expr, ...], packs: Mapping[str, int]) -> tuple[Expr, ...]:
    """The arguments with every expansion of a known pack written out."""
    if not packs:
        return args
    out: list[Expr] = []
    for arg in args:
        if isinstance(arg, ir.Opaque) and arg.what == EXPANSION and len(arg.children) == 1:
            pattern = arg.children[0]
            used = {n.name for n in ir.walk(pattern) if isinstance(n, ir.Name)} & packs.keys()
            if used:
                for position in range(min(packs[name] for name in used)):
                    names = {name: element(name, position) for name in used}
                    out.append(cast(Expr, _renamed(pattern, names)))
                continue
        out.append(arg)
    return tuple(out) if len(out) != len(args) or any(a is not b for a, b in zip(out, args, strict=True)) else args


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, ir.Name):
        return replace(node, name=names[node.name]) if node.name in names else node
    if isinstance(node, tuple):
        return tuple(_renamed(part, names) for part in node)
    if is_dataclass(node) and not isinstance(node, type):
        changes = {}
        for field in fields(node):
            old = getattr(node, field.name)
            new = _renamed(old, names)
            if new is not old and new != old:
                changes[field.name] = new
        return replace(node, **changes) if changes else node
    return node
