"""What the loop hands to the model's part when the rules are through, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stitchcuda.agent.outcome import Candidate, Stop
from stitchcuda.agent.proposing import Proposed
from stitchcuda.agent.transforms.transform import Refusal
from stitchcuda.agent.units import Unit
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.hub import BaselineMeasured
from stitchcuda.gpu_validate.version import Version


@dataclass(frozen=True)
class Start:
    """Where the model starts. `best` is the best version of the rules: accepted, or a preview where nothing can be run; None: the
    original. `left_out` are proved units that the judge did not let stay: they are not proposed again."""

    baseline: Version
    contract: Contract
    measured: BaselineMeasured
    proposed: Proposed
    best: Candidate | None
    refusals: tuple[Refusal, ...] = ()
    left_out: frozenset[str] = frozenset()
    judged: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class Invented:
    """`units` is the whole sequence, the rules' included, `base` the original texts that it needs. `judged` are all versions of this
    part, `offered` those of them that may be the answer. `problem` is why the model could not be asked, "" when it could. `refusals` are
    those of the rules on top of its versions that the rules did not tell before, with lines of the original."""

    units: tuple[Unit, ...]
    base: Mapping[str, bytes]
    judged: tuple[Candidate, ...]
    offered: tuple[Candidate, ...]
    stop: Stop
    rounds: int = 0
    problem: str = ""
    refusals: tuple[Refusal, ...] = ()
