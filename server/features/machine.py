"""What of the machine the offered actions depend on, asked once and in the background."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

_NEEDED = {"nvcc": "no CUDA compiler", "gpu": "no GPU"}


@dataclass
class Machine:
    """`lacking` is None until the answer is there."""

    lacking: tuple[str, ...] | None = None
    task: asyncio.Task[None] | None = None


def lacking(ls: StitchServer) -> tuple[str, ...]:
    """What building and running would need and this machine does not have; empty while that is not known yet."""
    if ls.machine.lacking is None and ls.machine.task is None:
        ls.machine.task = asyncio.create_task(_ask(ls.machine))
    return ls.machine.lacking or ()


async def _ask(machine: Machine) -> None:
    machine.lacking = await asyncio.to_thread(_lacking)


def _lacking() -> tuple[str, ...]:
    from stitchcuda.gpu_validate import capabilities

    return tuple(_NEEDED[c.name] for c in capabilities.probe() if c.name in _NEEDED and not c.found)
