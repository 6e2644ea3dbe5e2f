"""What a transform is: a program in, proposals and refusals out. Pure; applying and validating are the loop's work."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stitchcuda.agent.units import Obligation, TextEdit
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import Site
from stitchcuda.analysis.proof.model import Declared


@dataclass(frozen=True)
class Situation:
    """The version to improve: its analysis (with `sources`, the texts that edits refer to) and what the user asked for."""

    analysis: Analysis
    contract: Contract = field(default_factory=Contract)


@dataclass(frozen=True)
class Proposal:
    """One change, as small as it can stand alone. All edits of a situation's proposals fit together: they never overlap.

    `sites` are the calls that it removes or cheapens, by which the loop prices it from a trace. One that `supports` others does
    nothing by itself: it is kept only beside another one with some of its sites."""

    transform: str
    why: str  # one sentence for the reviewer
    path: str
    line: int  # 1-based, of what it changes first
    edits: tuple[TextEdit, ...]
    declared: Declared
    obligations: tuple[Obligation, ...]
    sites: tuple[Site, ...] = ()
    supports: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a change that looks possible is not made; `path` and `line` show what prevents it."""

    transform: str
    path: str
    line: int
    reason: str


@dataclass(frozen=True)
class Outcome:
    proposals: tuple[Proposal, ...] = ()
    refusals: tuple[Refusal, ...] = ()


class Transform(Protocol):
    """A module of this package; the table is in `__init__.py`, in the order in which they enable each other."""

    @property
    def ID(self) -> str: ...

    def find(self, situation: Situation) -> Outcome: ...


def edits_overlap(proposals: Sequence[Proposal]) -> bool:
    """Whether two edits touch the same bytes."""
    spans = sorted((e.path, e.start, e.end) for p in proposals for e in p.edits)
    return any(a[0] == b[0] and b[1] < a[2] for a, b in itertools.pairwise(spans))
