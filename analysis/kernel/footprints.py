"""Which cells of shared memory an access touches, and by which lanes: the unit in which accesses are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import TypeAlias

from stitchcuda.analysis.kernel.lanes import Form, lanes_of
from stitchcuda.analysis.kernel.model import Access, Buffer, KernelTrace, Mask, Memory

Cell: TypeAlias = object
Owners: TypeAlias = dict[Cell, int]  # cells, each with the one lane that touches it, or with `SEVERAL`

SEVERAL = -1


@dataclass(slots=True)
class Footprint:
    """Cells and lanes side by side, in order of lanes."""

    cells: tuple[Cell, ...]
    lanes: tuple[int, ...]
    owners: Owners = field(init=False)
    _by_cell: dict[Cell, list[int]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.owners = dict(zip(self.cells, self.lanes, strict=True))
        if len(self.owners) < len(self.cells):
            first = dict(zip(reversed(self.cells), reversed(self.lanes), strict=True))
            self.owners = {c: lane if first[c] == lane else SEVERAL for c, lane in self.owners.items()}

    def lanes_at(self, cell: Cell) -> list[int]:
        if self._by_cell is None:
            self._by_cell = {}
            for known, lane in zip(self.cells, self.lanes, strict=True):
                self._by_cell.setdefault(known, []).append(lane)
        return self._by_cell[cell]


class Footprints:
    """Of the accesses of one kernel. Those with the same index in the same lanes have the same."""

    def __init__(self, trace: KernelTrace) -> None:
        self._granules = _granules(trace)
        self._known: dict[tuple[Form, Mask, int, int], Footprint] = {}

    def of(self, access: Access) -> Footprint:
        """`access.offset` is not unknown."""
        grain = self._granules.get(access.buffer, 0)
        span = access.size // grain if grain and access.size is not None and access.offset.exact is not None else 0
        key = (access.offset, access.lanes, grain if span else 0, span)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _footprint(access, grain, span)
        return known


def _footprint(access: Access, grain: int, span: int) -> Footprint:
    """`span` cells a lane of `grain` bytes each; without, an index is a cell."""
    lanes = lanes_of(access.lanes)
    exact = access.offset.exact
    if not span or exact is None:
        return Footprint(access.offset.at_each(lanes), lanes)
    if isinstance(exact, int):
        first = [exact // grain] * len(lanes)
    elif len(exact) == len(lanes):
        first = [x // grain for x in exact]
    else:
        first = [exact[lane] // grain for lane in lanes]
    if span == 1:
        return Footprint(tuple(first), lanes)
    steps = range(span)
    return Footprint(
        tuple([start + step for start in first for step in steps]), tuple([k for k in lanes for _ in steps])
    )


def crossing(owners: Owners, others: Owners) -> set[Cell]:
    """Cells that different lanes touch."""
    if not others or others.keys().isdisjoint(owners):
        return set()
    known = others.get
    return {c for c, lane in owners.items() if (other := known(c)) is not None and (other != lane or lane < 0)}


def merge(into: Owners, owners: Owners) -> None:
    if into.keys().isdisjoint(owners):
        into.update(owners)
        return
    for cell, lane in owners.items():
        if into.setdefault(cell, lane) != lane:
            into[cell] = SEVERAL


def _granules(trace: KernelTrace) -> dict[Buffer, int]:
    """The largest unit in which all accesses of a buffer can be counted; none when a size is not known."""
    out: dict[Buffer, int] = {}
    for access in trace.accesses:
        if access.buffer.memory is not Memory.SHARED or out.get(access.buffer) == 0:
            continue
        grain = out.get(access.buffer, access.size or 0)
        if not access.size:
            out[access.buffer] = 0
            continue
        grain = gcd(grain, access.size)
        exact = access.offset.exact
        if exact is not None:
            for value in (exact,) if isinstance(exact, int) else exact[:64]:
                grain = gcd(grain, value)
        out[access.buffer] = grain
    return out
