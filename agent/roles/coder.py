"""Writes the edits of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.agent.model.messages import Ask, Reply
from stitchcuda.agent.roles.answers import Edits, Malformed, Plan
from stitchcuda.agent.roles.situation import Brief
from stitchcuda.agent.roles.templates import Templates


def ask(brief: Brief, templates: Templates, plan: Plan, whole: Sequence[str] = ()) -> Ask:
    """Asks for the edits. `whole` are functions whose anchors failed twice: they are to be given whole."""
    raise NotImplementedError


def read(reply: Reply, brief: Brief) -> Edits | Malformed:
    raise NotImplementedError
