"""Read-only tools that the model may call: bounded text about the version, the run and the machine."""

from __future__ import annotations

from stitchcuda.agent.model.messages import ToolCall, ToolSpec
from stitchcuda.agent.roles.situation import Brief


def specs(brief: Brief) -> tuple[ToolSpec, ...]:
    """The tools that have something to say in this situation."""
    raise NotImplementedError


def answer(call: ToolCall, brief: Brief) -> str:
    """Text for the model, never longer than `MOST`; what is wrong with the call is said in it. Never raises."""
    raise NotImplementedError
