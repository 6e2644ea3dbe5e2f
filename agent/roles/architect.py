"""Proposes one change of structure, as a plan."""

from __future__ import annotations

from stitchcuda.agent.model.messages import Ask, Reply
from stitchcuda.agent.roles.answers import Malformed, Plan
from stitchcuda.agent.roles.situation import Brief
from stitchcuda.agent.roles.templates import Templates


def ask(brief: Brief, templates: Templates) -> Ask:
    """Asks for the next plan."""
    raise NotImplementedError


def read(reply: Reply, brief: Brief) -> Plan | Malformed:
    raise NotImplementedError
