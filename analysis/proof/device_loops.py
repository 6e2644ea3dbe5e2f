"""Loops of kernels that changed and that now run fewer times over the same body: told, as a run may not show what is left out.

It is no proof of anything: another tiling has shorter loops and more of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import (
    Assign,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Function,
    Loop,
    Member,
    Name,
    Stmt,
    bare,
    walk,
)
from stitchcuda.analysis.proof.correspond import line_of
from stitchcuda.analysis.proof.device_code import DeviceChange, is_device
from stitchcuda.analysis.proof.model import ProofFinding

_LESS = frozenset({"/", ">>", "-", "%"})
_STEPS = {"+": 1, "-": -1}


def fewer_rounds(before: Analysis, after: Analysis, change: DeviceChange) -> Iterator[ProofFinding]:
    """One finding for each loop."""
    old, new = _functions(before, change), _functions(after, change)
    values = _numbers(before), _numbers(after)
    for name, function in sorted(new.items()):
        if name not in old:
            continue
        left = [(_shape(loop), loop) for loop in _loops(old[name])]
        for loop in _loops(function):
            shape = _shape(loop)
            partner = next((entry for entry in left if entry[0] == shape), None)
            if partner is None:
                continue
            left.remove(partner)
            was, now = _text(before, old[name], partner[1].condition), _text(after, function, loop.condition)
            if _fewer(partner[1], loop, values, (_bound(partner[1]), _bound(loop)), (was, now)):
                line = line_of(after, function.path, function.base + loop.span[0])
                told = f"`{now}`, and before `{was}`" if was != now else f"`{now}`"
                what = f"fewer iterations: a loop of `{name}` over the same body runs less often ({told})"
                yield ProofFinding(what, function.path, line)


def _functions(analysis: Analysis, change: DeviceChange) -> dict[str, Function]:
    """Those of a name of their own that may compute otherwise."""
    found: dict[str, list[Function]] = {}
    for f in analysis.program.functions.values():
        if is_device(f) and f.body is not None and f.name in change.touched:
            found.setdefault(f.name, []).append(f)
    return {name: fs[0] for name, fs in found.items() if len(fs) == 1}


def _loops(function: Function) -> list[Loop]:
    return [n for n in walk(function.body) if isinstance(n, Loop) and _bound(n) is not None] if function.body else []


def _bound(loop: Loop) -> Expr | None:
    """What the counter is compared with."""
    condition = loop.condition
    if (
        isinstance(condition, Binary)
        and condition.op in ("<", "<=", ">", ">=", "!=")
        and isinstance(condition.left, Name)
    ):
        return condition.right
    return None


def _shape(loop: Loop) -> tuple[str, ...]:
    """The body without its numbers."""
    out = [loop.form]
    for node in walk(loop.body):
        name = node.name if isinstance(node, (Name, Member)) else node.op if isinstance(node, (Binary, Assign)) else ""
        out.append(f"{type(node).__name__} {name}")
    return tuple(out)


def _fewer(
    old: Loop,
    new: Loop,
    values: tuple[Mapping[str, int], Mapping[str, int]],
    bounds: tuple[Expr | None, Expr | None],
    texts: tuple[str, str],
) -> bool:
    steps = _step(old, values[0]), _step(new, values[1])
    longer = None not in steps and abs(steps[1] or 0) > abs(steps[0] or 0)
    if bounds[0] is None or bounds[1] is None:
        return False
    counts = _value(bounds[0], values[0]), _value(bounds[1], values[1])
    if counts[0] is not None and counts[1] is not None:
        down = (steps[1] or 1) < 0
        smaller = counts[1] > counts[0] if down else counts[1] < counts[0]
        return smaller or (counts[0] == counts[1] and longer)
    if texts[0] == texts[1]:
        return longer
    inner = bare(bounds[1])
    if isinstance(inner, Binary) and inner.op in _LESS:
        return _same(inner.left, bounds[0])
    if isinstance(inner, Call) and isinstance(inner.callee, Name) and inner.callee.name.rsplit("::", 1)[-1] == "min":
        return any(_same(arg, bounds[0]) for arg in inner.args)
    return False


def _same(one: Expr, other: Expr) -> bool:
    def parts(node: Expr) -> list[str]:
        return [
            f"{type(n).__name__} {getattr(n, 'name', '')}{getattr(n, 'op', '')}{getattr(n, 'value', '') if isinstance(n, Const) else ''}"
            for n in walk(node)
            if not isinstance(n, Cast)
        ]

    return parts(one) == parts(other)


def _step(loop: Loop, values: Mapping[str, int]) -> int | None:
    step: Stmt | Expr | None = loop.step
    found = next((n for n in walk(step) if isinstance(n, Assign)), None) if step is not None else None
    if found is None or found.op not in _STEPS:
        return None
    amount = _value(found.value, values)
    return None if amount is None else _STEPS[found.op] * amount


def _numbers(analysis: Analysis) -> dict[str, int]:
    """Constants by name; one that has several values has none."""
    found: dict[str, set[int | None]] = {}
    given: list[tuple[str, Expr | None]] = []
    for module in analysis.program.modules.values():
        given += [(d.name, d.init) for d in module.globals if d.type.const or d.name.isupper()]
        given += list(module.constants)
    known: dict[str, int] = {}
    for _ in range(4):  # constants that are made of others
        found = {}
        for name, init in given:
            found.setdefault(name, set()).add(None if init is None else _value(init, known))
        known = {name: v for name, vs in found.items() if len(vs) == 1 and (v := next(iter(vs))) is not None}
    return known


def _value(node: Expr, values: Mapping[str, int]) -> int | None:
    node = bare(node)
    if isinstance(node, Const):
        return node.value if isinstance(node.value, int) and not isinstance(node.value, bool) else None
    if isinstance(node, Name):
        return values.get(node.name.rsplit("::", 1)[-1])
    if not isinstance(node, Binary):
        return None
    left, right = _value(node.left, values), _value(node.right, values)
    if left is None or right is None or (node.op in ("/", "%") and right == 0):
        return None
    results = {"+": left + right, "-": left - right, "*": left * right}
    if node.op in ("/", "%"):
        results |= {"/": left // right, "%": left % right}
    if node.op in (">>", "<<") and 0 <= right < 64:
        results |= {">>": left >> right, "<<": left << right}
    return results.get(node.op)


def _text(analysis: Analysis, function: Function, node: Expr | None) -> str:
    if node is None:
        return ""
    start, end = function.base + node.span[0], function.base + node.span[1]
    return " ".join(analysis.sources[function.path][start:end].decode(errors="replace").split())
