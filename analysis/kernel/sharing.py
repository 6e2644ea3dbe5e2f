"""Which threads of a launch meet at the element that one access touches: of one block, of several blocks, or as the data
decides."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from stitchcuda.analysis.kernel.conditions import Conditions
from stitchcuda.analysis.kernel.lanes import WARP, Form, lanes_of
from stitchcuda.analysis.kernel.model import Access, Guard, KernelTrace, Memory, Mode, Uniformity
from stitchcuda.analysis.kernel.trace import KernelTraces
from stitchcuda.analysis.program import ir

_ELECTS = re.compile(r"^atomic[A-Z]|^__nv_atomic|^fetch_|compare_exchange|try_?lock|exchange|elect", re.IGNORECASE)


class Who(StrEnum):
    """The threads that share an element."""

    BLOCK = "threads of a block"
    GRID = "blocks"
    DATA = "threads whose data say so"


@dataclass(frozen=True, slots=True)
class Sharing:
    """`sure` when they meet on every reading of what is not known; else they very likely do."""

    who: Who
    sure: bool


class Grid:
    """What is known of the grid that a kernel is launched with."""

    def __init__(self, traces: KernelTraces, conditions: Conditions, trace: KernelTrace) -> None:
        self._dims = [launch.grid for launch in traces.launches]
        self.shape_known = traces.fixed
        self._params = {param.name for param in traces.function.params}
        uids = (traces.function.uid, *(uid for uid, _ in trace.functions))
        self._used: set[str] = set()
        self.many_threads = False  # the kernel asks for the place of a thread
        for name in (n for uid in uids for n in conditions.coordinates(uid)):
            self.many_threads = True
            if name.startswith("blockIdx."):
                self._used.add(name.removeprefix("blockIdx."))
            elif name.endswith("this_grid"):
                self._used.add("x")

    def several(self, axis: str) -> bool | None:
        """There is more than one block along an axis: True in some launch that is known, False in none; None: nobody
        knows, but the kernel is written for several."""
        sizes = [dims["xyz".index(axis)] for dims in self._dims]
        if any(size is not None and size > 1 for size in sizes):
            return True
        if sizes and all(size == 1 for size in sizes):
            return False
        return None if axis in self._used else False

    def same_everywhere(self, name: str) -> bool:
        """A symbol stands for the same number in all blocks."""
        if name.startswith(("gridDim.", "sizeof(", "<")):
            return True
        return name.split(".", 1)[0] in self._params and not re.search(r"blockIdx|[~^]|\bu\d", name)

    def fixed(self, number: Form) -> bool:
        """It depends on the block's number and on what is the same in all blocks, not on data."""
        return all(s.startswith("blockIdx.") or self.same_everywhere(s) for s in number.symbols)


def sharing(access: Access, trace: KernelTrace, grid: Grid, conditions: Conditions) -> Sharing | None:
    """None when each thread has an element of its own, or when nothing says that it has not."""
    if not access.certain or access.buffer.name.endswith("[]") or access.offset is None:
        return None
    for guard in access.guards:
        elects = any(_ELECTS.search(name) for name in conditions.calls(guard))
        if elects and not _elects_for_elements(access, guard, trace, conditions):
            return None  # one thread has won, or holds a lock
    found = _in_block(access, access.lanes, conditions)
    if (
        found is not None and not grid.shape_known and trace.block.y > 1
    ):  # a guess: the block may be one row or one column
        row = (1 << trace.block.x) - 1
        column = sum(1 << k * trace.block.x for k in range(trace.block.y))
        if any(_in_block(access, access.lanes & part, conditions) is None for part in (row, column)):
            found = None
    if found is not None:
        return Sharing(found, found is Who.BLOCK and not _on_data(access) and trace.block.known == "launch")
    if access.buffer.memory is not Memory.GLOBAL:
        return None
    return _between_blocks(access, grid)


def _elects_for_elements(access: Access, guard: Guard, trace: KernelTrace, conditions: Conditions) -> bool:
    """For each element one thread has won, and all winners go on to one place: `if (!atomicExch(&seen[v], 1)) (*count)++`."""
    if not access.offset.same_on(access.lanes) or any(s[0] in "~^" for s in access.offset.symbols):
        return False
    spans = {n.span for n in conditions.behind(guard) if isinstance(n, ir.Call)}
    asked = [
        a
        for a in trace.accesses
        if a.mode is Mode.ATOMIC
        and a.at < access.at
        and a.site.function == guard.site.function
        and a.site.span in spans
    ]
    return bool(asked) and all(any(s[0] == "~" for s in a.offset.symbols) for a in asked)


def _in_block(access: Access, lanes: int, conditions: Conditions) -> Who | None:
    """Whether some of these lanes of one block meet, of those that may pass the guards together."""
    if lanes.bit_count() < 2:
        return None
    equal: list[Form] = []
    for guard in access.guards:
        if guard.equal is not None and not guard.equal.unknown:
            equal.append(guard.equal)
        elif guard.margin is None and (conditions.elects(guard) or _may_be_one(guard, conditions)):
            return None
    fixed = _fixed_part(access.offset)
    members = lanes_of(lanes)
    columns = [number.keys(members) for number in (fixed, *equal)]
    places = set(zip(*columns, strict=True))
    if len(places) == len(members):
        return None
    differing = [s for s in access.offset.symbols if s[0] in "~^"]
    if not differing:
        return Who.BLOCK
    if len(places) > 1 and any(not isinstance(c, int) for _, c in access.offset.terms):
        return None  # each thread has a part of its own, as far as the index goes
    if all(s[0] == "^" for s in differing):
        warps = Counter(zip([lane // WARP for lane in members], *columns, strict=True))
        return Who.BLOCK if max(warps.values()) > 1 else None
    return Who.DATA


def _may_be_one(guard: Guard, conditions: Conditions) -> bool:
    """`lane() == 0`, with a function that is not seen: it may give each thread a number of its own."""
    called = conditions.calls(guard) if guard.equal is not None and guard.guessed else frozenset()
    return bool(called) and not any(_ELECTS.search(name) for name in called)


def _fixed_part(offset: Form) -> Form:
    return Form(tuple((mono, c) for mono, c in offset.terms if not any(s[0] in "~^" for s in mono)))


def _on_data(access: Access) -> bool:
    """Whether the access takes place at all depends on data."""
    return any(g.uniformity is Uniformity.DATA or g.margin is None and g.equal is None for g in access.guards)


def _between_blocks(access: Access, grid: Grid) -> Sharing | None:
    if access.offset.unknown:
        return None
    names = access.offset.symbols
    axes = [a for a in "xyz" if not any(f"blockIdx.{a}" in name for name in names)]
    if any(not grid.same_everywhere(name) and not name.startswith("blockIdx.") for name in names):
        return None
    if not all(_open_to_all_blocks(guard, grid) for guard in access.guards):
        return None
    known = [grid.several(axis) for axis in axes]
    if True in known:
        return Sharing(Who.GRID, not _on_data(access))
    return Sharing(Who.GRID, False) if None in known else None


def _open_to_all_blocks(guard: Guard, grid: Grid) -> bool:
    """The condition does not choose a block."""
    if guard.equal is not None:
        return all(grid.same_everywhere(s) for s in guard.equal.symbols)
    if guard.margin is not None:
        if guard.uniformity in (Uniformity.THREAD, Uniformity.DATA):
            return True
        fixed = [s for s in guard.margin.symbols if not s.startswith("blockIdx.")]
        chooses = len(fixed) < len(guard.margin.symbols) and all(s.startswith("gridDim.") for s in fixed)
        return not chooses and all(grid.same_everywhere(s) for s in fixed)
    if guard.key.startswith(("pointer ", "#if ", "range ")):
        return True
    return guard.uniformity is Uniformity.DATA
