"""Anchored edits to byte ranges: exact, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stitchcuda.agent.roles.answers import AnchoredEdit
from stitchcuda.agent.units import TextEdit


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Edits that cannot be made as they are written. `reason` is one sentence for the journal, `feedback` is for the model;
    `times` counts how often each anchor occurs that does not occur once, `functions` names those whose anchors failed."""

    reason: str
    feedback: str
    times: Mapping[str, int] = field(default_factory=dict)
    functions: tuple[str, ...] = ()


def place(edits: Sequence[AnchoredEdit], texts: Mapping[str, bytes]) -> tuple[TextEdit, ...] | Unplaced:
    """The same edits as byte ranges of `texts`, in order of file and place, not overlapping, each of them a change."""
    raise NotImplementedError
