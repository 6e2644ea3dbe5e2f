"""Host writes that running device work is meant to see: flags that tell a kernel to go on or to stop (C12)."""

from __future__ import annotations

from stitchcuda.analysis.findings.race import Race
from stitchcuda.analysis.order.alias import SCALAR
from stitchcuda.analysis.order.timeline import Memory, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Program


def signals(program: Program, line: Timeline, race: Race) -> bool:
    """The host writes a few bytes that a kernel reads in place: whether it polls them is not known."""
    if race.earlier.kind is not ApiKind.LAUNCH or race.buffer.memory not in (
        Memory.MAPPED,
        Memory.MANAGED,
        Memory.PINNED,
    ):
        return False
    size = race.buffer.size.constant if race.buffer.size is not None else None
    return size is not None and size <= SCALAR
