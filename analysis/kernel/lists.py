"""Updates at indexes that stand in memory as they are: whether such a list is known to name a place several times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stitchcuda.analysis.kernel.conditions import Conditions
from stitchcuda.analysis.kernel.launches import KernelLaunch
from stitchcuda.analysis.kernel.model import Access
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Function

_LOOKED_THROUGH = 4  # variables, one after the other
Spelled = Callable[[ir.Expr], str]


@dataclass(frozen=True, slots=True)
class Entry:
    """An element of a list that is used as an index."""

    spelled: str  # `row[k]`, `pairs[2 * k + 1]`, `edges[k].to`
    counter: str  # the variable that chooses it
    node: ir.Index | None  # None for `*next`


def entry(conditions: Conditions, function: str, index: ir.Expr, spelled: Spelled) -> Entry | None:
    """The element of a list that an index is, as it stands there. What is computed from data is none."""
    members = ""
    for _ in range(_LOOKED_THROUGH):
        index = ir.bare(index)
        if isinstance(index, ir.Member):  # `cells[i].left`
            members = f".{index.name}{members}"
            index = index.base
            continue
        if not isinstance(index, ir.Name):
            break
        given = conditions.given(function, index.name)
        if len(given) != 1:
            break
        index = given[0]
    if isinstance(index, ir.Deref):
        return Entry("", "", None)
    if not isinstance(index, ir.Index):
        return None
    return Entry(f"{spelled(index)}{members}", _counter(index.index), index)


def meets(
    conditions: Conditions,
    kernel: Function,
    launches: tuple[KernelLaunch, ...],
    access: Access,
    update: ir.Assign,
    place: ir.Index,
    spelled: Spelled,
) -> bool:
    """There is evidence that a list names a place several times: the launches have filled the target with zero for it, as is
    done for sums of several parts; or the list is one of two that stand for edges or entries of a matrix."""
    own = entry(conditions, access.site.function, place.index, spelled)
    if own is None or own.node is None or _compared(conditions, access):
        return False
    return _zeroed(kernel, launches, access, place) or (
        bool(launches)
        and not any(launch.piecewise for launch in launches)
        and _goes_over_all(conditions, kernel, own.counter)
        and access.site.function == kernel.uid
        and (
            _matrix(conditions, kernel.uid, update, own, spelled) or _pair(conditions, kernel.uid, place, own, spelled)
        )
    )


def _compared(conditions: Conditions, access: Access) -> bool:
    """Only where something read is equal to something or is not: at the end of a run of equal keys, of one colour."""
    return any(
        isinstance(part, ir.Binary)
        and part.op in ("==", "!=")
        and any(isinstance(p, ir.Index | ir.Deref | ir.Call) for p in conditions.values(guard.site.function, part))
        for guard in access.guards
        for part in conditions.behind(guard)
    )


def _zeroed(kernel: Function, launches: tuple[KernelLaunch, ...], access: Access, place: ir.Index) -> bool:
    if access.calls or not isinstance(place.base, ir.Name):
        return False
    position = next((k for k, p in enumerate(kernel.params) if p.name == place.base.name), None)
    return bool(launches) and all(position in launch.zeroed for launch in launches)


def _goes_over_all(conditions: Conditions, kernel: Function, counter: str) -> bool:
    """A counter is the thread's place in the whole grid, and nothing that is passed or read moves it."""
    if not counter:
        return False
    made_of = conditions.ingredients(kernel.uid, ir.Name((0, 0), counter))
    names = {n.name for n in conditions.values(kernel.uid, ir.Name((0, 0), counter)) if isinstance(n, ir.Name)}
    return (
        made_of.coordinates
        and not made_of.loads
        and "blockIdx" in names
        and not names & {p.name for p in kernel.params}
    )


def _matrix(conditions: Conditions, function: str, update: ir.Assign, own: Entry, spelled: Spelled) -> bool:
    """`y[row[k]] += value[k] * x[col[k]]`: one entry of a matrix, whose rows have several."""
    parts = list(conditions.values(function, update.value))
    loaded = [p for p in parts if isinstance(p, ir.Index)]
    gathered = [e for p in loaded if (e := _other(conditions, function, p, own, spelled)) is not None]
    lists = {own.spelled, *(e.spelled for e in gathered)}
    weights = [p for p in loaded if _counter(p.index) == own.counter and spelled(p) not in lists]
    return bool(gathered) and bool(weights) and any(isinstance(p, ir.Binary) and p.op == "*" for p in parts)


def _pair(conditions: Conditions, function: str, place: ir.Index, own: Entry, spelled: Spelled) -> bool:
    """`out[a] += f; out[b] -= f` with both ends of a pair."""
    base = spelled(place.base)
    for node in conditions.nodes(function):
        target = node.target if isinstance(node, ir.Assign) and node.op in ("+", "-") else None
        while isinstance(target, ir.Member):
            target = target.base
        if not isinstance(target, ir.Index) or not base or spelled(target.base) != base:
            continue
        if _other(conditions, function, target, own, spelled) is not None:
            return True
    return False


def _other(conditions: Conditions, function: str, place: ir.Index, own: Entry, spelled: Spelled) -> Entry | None:
    """Another element with the same counter, as the index of a place."""
    other = entry(conditions, function, place.index, spelled)
    if other is None or not other.spelled or other.spelled == own.spelled or other.counter != own.counter:
        return None
    return other


def _counter(index: ir.Expr) -> str:
    """The one variable in an index; "" when there are several, or anything but sums and products with numbers."""
    names = set()
    for part in ir.walk(index):
        if isinstance(part, ir.Name):
            names.add(part.name)
        elif not isinstance(part, ir.Binary | ir.Const | ir.Cast):
            return ""
    return names.pop() if len(names) == 1 else ""
