"""Reads from a request what the deterministic parser left open: contract fields, each with its words."""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.agent.model.messages import Ask, Reply
from stitchcuda.agent.roles.answers import AnchoredFields, Malformed
from stitchcuda.agent.roles.templates import Templates
from stitchcuda.analysis.contract.types import Contract


def ask(request: str, contract: Contract, templates: Templates, functions: Sequence[str] = ()) -> Ask:
    """Asks about `request`, of which the parser made `contract`. `functions` are names that a scope may hold."""
    raise NotImplementedError


def read(reply: Reply, request: str, contract: Contract, functions: Sequence[str] = ()) -> AnchoredFields | Malformed:
    """The parser's contract with the fields that the model added: a field that the parser set is never changed."""
    raise NotImplementedError
