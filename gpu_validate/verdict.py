"""The verdict on a version: what every gate found, and what follows from it (docs/json.md).

Missing evidence is never a pass: a gate that did not run is `untested` and says why, and `decide` accepts a version only when
all of `REQUIRED` are passed or proved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA = 1


class GateState(StrEnum):
    PROVED = "proved"
    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    UNTESTED = "untested"


class VerdictState(StrEnum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNPROVEN = "unproven"


GATES = {
    "G0": "structure",
    "G1": "order",
    "G2": "build",
    "G3": "equivalence",
    "G4": "memory and races",
    "G5": "order on the machine",
    "G6": "latency",
    "G7": "saturation",
}
REQUIRED = ("G0", "G1", "G2", "G3", "G4", "G6")  # G5 and G7 inform


OF_ORIGINAL = " (line of the original)"  # ends what is told of a place that the version may not have


@dataclass(frozen=True, slots=True)
class GateFinding:
    """One diagnostic of a gate, where it can be placed: `path` as the user gave it, `line` 1-based, 0 when unknown.
    `baseline` marks what the original has as well: it is told and never held against the version."""

    what: str
    path: str = ""
    line: int = 0
    baseline: bool = False

    @property
    def of_original(self) -> bool:
        """Whether the place is in the text of the original."""
        return self.baseline or self.what.endswith(OF_ORIGINAL)


@dataclass(frozen=True, slots=True)
class GateResult:
    """`reason` is one sentence, needed for every state but passed and proved. `evidence` holds plain JSON values."""

    gate: str
    state: GateState
    reason: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[GateFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio baseline/candidate (above 1: the version is faster), with its 95 % confidence interval."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class BoundResult:
    """A bound of the contract, its JSON, with what was measured in its unit; None: it could not be measured, and why."""

    bound: Mapping[str, Any]
    measured: float | None
    met: bool | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Primary:
    """The one thing to put right first."""

    issue: str
    why: str
    fix: str
    path: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """`speedup` maps wall, cuda_span, gpu_busy, latency to an interval, as far as measured; `measured` holds the figures
    behind it (seconds, for baseline and candidate). `limits` is what limits the version now, as a sentence."""

    state: VerdictState
    gates: tuple[GateResult, ...]
    speedup: Mapping[str, Interval] = field(default_factory=dict)
    bounds: tuple[BoundResult, ...] = ()
    primary: Primary | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)
    limits: str = ""

    def gate(self, name: str) -> GateResult | None:
        return next((g for g in self.gates if g.gate == name), None)


def decide(gates: Sequence[GateResult]) -> VerdictState:
    """What the states of the gates add up to."""
    states = {g.gate: g.state for g in gates}
    if GateState.FAILED in states.values():
        return VerdictState.REJECTED
    good = (GateState.PASSED, GateState.PROVED)
    return VerdictState.ACCEPTED if all(states.get(g) in good for g in REQUIRED) else VerdictState.UNPROVEN
