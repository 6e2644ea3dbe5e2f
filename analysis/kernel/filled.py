"""What a function does for the launches in it: the memory that it fills with zero, and whether it launches piece by piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.environment import is_scalar

_WHERE = frozenset({"data", "get", "begin", "end"})  # members that tell where the elements of an object are
_Nest: TypeAlias = tuple[ir.Node, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """How a launch is prepared by the function around it. Arguments are told by their positions."""

    zeroed: frozenset[
        int
    ]  # their memory is filled with zero, and this launch is the first and only one of its kernel to use it
    parts: frozenset[int]  # not simply a variable: perhaps a part of an array
    by_round: bool  # the rounds of a loop around it pass something else each


def prepared(function: ir.Function) -> dict[int, Prepared]:
    """For each launch in a function, by the `id` of its node."""
    assert function.body is not None
    known = _prepared.get(function.body)
    if known is None:
        known = _prepared.keep(function.body, _looked_up(function, function.body))
    return known


_prepared: KeptWith[dict[int, Prepared]] = KeptWith()


def _looked_up(function: ir.Function, body: ir.Block) -> dict[int, Prepared]:
    counts = {p.name for p in function.params if is_scalar(p.type)}
    filled: dict[str, _Nest] = {}
    found: list[tuple[ir.Launch, frozenset[int], bool]] = []
    for node, nest in _in_order(body):
        if isinstance(node, ir.Launch):
            keys = [_memory(a) for a in node.args]
            zeroed = {k for k, key in enumerate(keys) if key in filled and _reaches(filled[key], nest)}
            found.append((node, frozenset(zeroed), _by_round(node, nest)))
            _use(filled, node)
        elif isinstance(node, ir.Call | ir.Api):
            _use(filled, node)
            filled[_zeroed_by(node)] = nest
        elif isinstance(node, ir.Assign):
            filled.pop(_memory(node.target), None)
        elif isinstance(node, ir.Declare):
            if is_scalar(node.type):
                counts.add(node.name)
            elif node.type.name.endswith("device_vector") and _only_counted(node.init, counts):
                filled[node.name] = nest
            elif _memory(node.init) in filled:
                filled[node.name] = filled.pop(_memory(node.init))
        filled.pop("", None)
    uses = Counter((_name(node), key) for node, _, _ in found for key in {_memory(a) for a in node.args})
    return {
        id(node): Prepared(
            frozenset(k for k in zeroed if uses[_name(node), _memory(node.args[k])] == 1),
            frozenset(k for k, argument in enumerate(node.args) if not _memory(argument)),
            by_round,
        )
        for node, zeroed, by_round in found
    }


def _in_order(body: ir.Block) -> Iterator[tuple[ir.Node, _Nest]]:
    """The parts of a body as they stand, each with the loops and branches around it."""
    waiting: list[tuple[ir.Node, _Nest]] = [(body, ())]
    while waiting:
        node, nest = waiting.pop()
        yield node, nest
        inner = []
        for child in ir.children(node):
            chosen = isinstance(node, ir.Switch | ir.Lambda | ir.PreprocIf)
            if isinstance(node, ir.If | ir.Conditional):
                chosen = child is not node.condition
            once = isinstance(node, ir.Loop) and node.form == "do" and _is_zero(node.condition)
            around = child if chosen else node if isinstance(node, ir.Loop) and not once else None
            inner.append((child, (*nest, around) if around is not None else nest))
        waiting.extend(reversed(inner))


def _reaches(filled: _Nest, used: _Nest) -> bool:
    """Each time that the use is come to, the filling has been done anew."""
    more = used[len(filled) :]
    return (
        len(filled) <= len(used)
        and all(a is b for a, b in zip(filled, used, strict=False))
        and not any(isinstance(n, ir.Loop) for n in more)
    )


def _use(filled: dict[str, _Nest], node: ir.Node) -> None:
    """What is passed on may be written."""
    if filled:
        for part in ir.walk(node):
            if isinstance(part, ir.Name | ir.Member):
                filled.pop(_memory(part), None)


def _zeroed_by(node: ir.Call | ir.Api) -> str:
    if isinstance(node, ir.Api):
        roles = dict(node.roles)
        whole = node.kind is ir.ApiKind.MEMSET and not node.flags & {"2d", "3d"}
        return _memory(roles.get("dst")) if whole and _is_zero(roles.get("value")) else ""
    fills = isinstance(node.callee, ir.Name) and node.callee.name.endswith("thrust::fill")
    return _memory(node.args[-3]) if fills and len(node.args) >= 3 and _is_zero(node.args[-1]) else ""


def _by_round(node: ir.Launch, nest: _Nest) -> bool:
    loops = [n for n in nest if isinstance(n, ir.Loop)]
    if not loops:
        return False
    changing = {
        part.name if isinstance(part, ir.Declare) else _memory(part.target)
        for part in ir.walk(loops[0])
        if isinstance(part, ir.Declare | ir.Assign)
    }
    return any(isinstance(part, ir.Name) and part.name in changing for part in ir.walk(node))


def _memory(expr: ir.Node | None) -> str:
    """What holds the memory that an expression points to: `d_out`, `out.data`; "" for others, as parts of it."""
    match expr:
        case ir.Cast(operand=inner):
            return _memory(inner)
        case ir.Name(name=name):
            return name
        case ir.Member(base=base, name=name):
            inside = _memory(base)
            return f"{inside}.{name}" if inside else ""
        case ir.AddressOf(operand=ir.Index(base=base, index=index)):
            return _memory(base) if _is_zero(index) else ""
        case ir.Call(callee=ir.Member(base=base, name=name), args=()) if name in _WHERE:
            return _memory(base)
        case ir.Call(callee=ir.Name(name=name), args=(only,)) if name.endswith("raw_pointer_cast"):
            return _memory(only)
    return ""


def _only_counted(init: ir.Expr | None, counts: set[str]) -> bool:
    """A vector of so many elements, which are zero: `(n)`, `(n, 0)`, and no copy of another."""
    args: tuple[ir.Expr, ...] = init.args if isinstance(init, ir.Construct) else ()
    if not 1 <= len(args) <= 2 or len(args) == 2 and not _is_zero(args[1]):
        return False
    count = ir.bare(args[0])
    if isinstance(count, ir.Call):
        return isinstance(count.callee, ir.Member) and count.callee.name == "size"
    return isinstance(count, ir.Const | ir.Binary) or isinstance(count, ir.Name) and count.name in counts


def _is_zero(value: ir.Node | None) -> bool:
    while isinstance(value, ir.Cast):
        value = value.operand
    return isinstance(value, ir.Const) and isinstance(value.value, int | float) and value.value == 0


def _name(launch: ir.Launch) -> str:
    kernel = launch.kernel
    while isinstance(kernel, ir.Cast | ir.AddressOf | ir.Deref):
        kernel = kernel.operand
    return kernel.name.rsplit("::", 1)[-1] if isinstance(kernel, ir.Name | ir.Member) else ""
