"""Parameter packs: `f(args...)` becomes `f(args#0, args#1)` once the call says how many there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from stitchcuda.analysis.order.recorder import Frame
from stitchcuda.analysis.order.symbolic import Poly
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr, TypeRef

_SEQUENCES = frozenset({"index_sequence", "integer_sequence"})
_LONGEST = 16
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
            used = _mentioned(pattern) & packs.keys()
            if used:
                for position in range(min(packs[name] for name in used)):
                    names = {name: element(name, position) for name in used}
                    out.append(cast(Expr, _renamed(pattern, names)))
                continue
        out.append(arg)
    return tuple(out) if len(out) != len(args) or any(a is not b for a, b in zip(out, args, strict=True)) else args


def bind(
    frame: Frame,
    args: Sequence[Expr],
    template: Sequence[Expr | TypeRef],
    meant: Callable[[TypeRef], TypeRef | None],
    value_of: Callable[[TypeRef], Poly | None],
) -> None:
    """The packs of template arguments of a call: those that it writes, and the numbers of a `std::index_sequence`. `meant`:
    what a type stands for where the call is written; `value_of`: the number that a template argument is."""
    function = frame.function
    if len(template) > len(function.template) > 0 and not function.record:  # the last parameter takes all the rest
        rest = [as_type(t) or TypeRef("?") for t in template[len(function.template) - 1 :]]
        _keep(frame, function.template[-1], [meant(t) or t for t in rest])
    for param, arg in zip(function.params, args, strict=False):
        last = param.type.args[-1].name if param.type.args else ""
        name = pack_name(last) if param.type.name.rpartition("::")[2] in _SEQUENCES else None
        if name is not None and isinstance(arg, ir.Construct):
            _keep(frame, name, _numbers(arg.type, value_of))


def _keep(frame: Frame, name: str, given: list[TypeRef]) -> None:
    frame.packs[name] = len(given)
    frame.types.update((element(name, k), type) for k, type in enumerate(given))


def as_type(given: Expr | TypeRef) -> TypeRef | None:
    """A template argument in the form in which a frame keeps it; None for an expression that is computed."""
    if isinstance(given, ir.Const):
        return TypeRef(str(given.value))
    if isinstance(given, ir.Name):
        return TypeRef(given.name)
    return given if isinstance(given, TypeRef) else None


def _numbers(type: TypeRef, value_of: Callable[[TypeRef], Poly | None]) -> list[TypeRef]:
    """What `std::make_index_sequence<N>` or `std::index_sequence<0, 2>` consists of; nothing when that is not known."""
    name = type.name.rpartition("::")[2]
    if name in _SEQUENCES:
        return list(type.args if name == "index_sequence" else type.args[1:])
    made = name.startswith("make_") and name.removeprefix("make_") in _SEQUENCES and type.args
    value = value_of(type.args[-1]) if made else None
    length = value.constant if value is not None else None
    return [TypeRef(str(k)) for k in range(length)] if length is not None and length <= _LONGEST else []


def _mentioned(node: Expr) -> set[str]:
    """The names in an expression, those in template arguments included."""
    found: set[str] = set()
    for inner in ir.walk(node):
        if isinstance(inner, ir.Name):
            found.add(inner.name)
        given = inner.template if isinstance(inner, ir.Name | ir.Member) else ()
        typed = (inner.type,) if isinstance(inner, ir.Construct | ir.Cast) else ()
        waiting = [*given, *typed]
        while waiting:
            one = waiting.pop()
            if isinstance(one, TypeRef):
                found.add(one.name)
                waiting += one.args
            else:
                found |= _mentioned(one)
    return found


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, ir.Name | TypeRef) and node.name in names:
        node = replace(node, name=names[node.name])
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
