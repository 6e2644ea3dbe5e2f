"""Repairs one issue of a version that was rejected."""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.agent.model.messages import Ask, Reply
from stitchcuda.agent.roles.answers import Fix, Malformed, Plan
from stitchcuda.agent.roles.situation import Brief
from stitchcuda.agent.roles.templates import Templates
from stitchcuda.gpu_validate.verdict import Verdict


def ask(brief: Brief, templates: Templates, plan: Plan, verdict: Verdict, whole: Sequence[str] = ()) -> Ask:
    """Asks for one fix of the verdict's primary issue. `brief` is that of the rejected version: its texts and analysis. Raises
    ValueError when the verdict has no primary issue."""
    raise NotImplementedError


def read(reply: Reply, brief: Brief) -> Fix | Malformed:
    raise NotImplementedError
