"""What a proposed edit may touch, and what it may not bring in. Decided from tokens: comments and strings are no code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.agent.roles.situation import Scope
from stitchcuda.agent.units import TextEdit
from stitchcuda.analysis.index.index import Analysis


@dataclass(frozen=True, slots=True)
class Violation:
    """Why an edit is refused. `kind` is one of KINDS; `line` counts from 1 in the text after the edits, 0 for a whole file;
    `what` is one sentence, written for the model too."""

    kind: str
    path: str
    line: int
    what: str


def violations(
    texts_before: Mapping[str, bytes], edits: Sequence[TextEdit], scope: Scope, analysis_before: Analysis
) -> tuple[Violation, ...]:
    """Everything that the edits may not do; empty when they stay inside. Only what is new counts."""
    raise NotImplementedError
