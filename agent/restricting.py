"""Transforms restricted to what a user asked for: some of them, and what they change in some functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stitchcuda.agent.transforms.transform import Outcome, Proposal, Situation, Transform
from stitchcuda.analysis.index.index import Analysis


def restricted(transforms: Sequence[Transform], only: Sequence[str], within: Sequence[str]) -> tuple[Transform, ...]:
    """Those whose id is in `only` (empty: all), in their order; each finds what changes in the functions `within` (names,
    plain or qualified; empty: everywhere)."""
    chosen = [t for t in transforms if not only or t.ID in only]
    return tuple(_Within(t, tuple(within)) for t in chosen) if within else tuple(chosen)


@dataclass(frozen=True)
class _Within:
    """A transform without the changes that do not touch the functions: neither their text nor a call in them."""

    transform: Transform
    names: tuple[str, ...]

    @property
    def ID(self) -> str:
        return self.transform.ID

    def find(self, situation: Situation) -> Outcome:
        outcome = self.transform.find(situation)
        here = _Functions(situation.analysis, self.names)
        # Refusals are all kept: what prevents a change may stand in another function than what would be changed.
        return Outcome(tuple(p for p in outcome.proposals if here.touched_by(p)), outcome.refusals)


class _Functions:
    """The functions of those names in one analysis."""

    def __init__(self, analysis: Analysis, names: Sequence[str]) -> None:
        found = [f for f in analysis.program.functions.values() if f.name in names or f.qualified in names]
        self._uids = {f.uid for f in found}
        self._spans = [(f.path, f.base + f.span[0], f.base + f.span[1]) for f in found]

    def touched_by(self, proposal: Proposal) -> bool:
        if any(site.function in self._uids for site in proposal.sites):
            return True
        return any(
            edit.path == path and edit.start < end and start < max(edit.end, edit.start + 1)
            for edit in proposal.edits
            for path, start, end in self._spans
        )
