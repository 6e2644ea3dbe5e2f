"""What of the machine the offered actions depend on, asked once and in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

_NEEDED = {"nvcc": "no CUDA compiler", "gpu": "no GPU"}


@dataclass
class Machine:
    """`facts` (of `capabilities.device_facts`) is None until the answer is there."""

    facts: Mapping[str, str] | None = None
    task: asyncio.Task[None] | None = None


def lacking(ls: StitchServer) -> tuple[str, ...]:
    """What building and running would need and this machine does not have; empty while that is not known yet."""
    facts = known(ls)
    return tuple(words for name, words in _NEEDED.items() if name not in facts) if facts is not None else ()


def known(ls: StitchServer) -> Mapping[str, str] | None:
    """The facts; None, and the question asked, when they are not there yet."""
    if ls.machine.facts is None and ls.machine.task is None:
        ls.machine.task = asyncio.create_task(_ask(ls.machine))
    return ls.machine.facts


async def _ask(machine: Machine) -> None:
    machine.facts = await asyncio.to_thread(_facts)


def _facts() -> Mapping[str, str]:
    from stitchcuda.gpu_validate import capabilities

    return capabilities.device_facts()
