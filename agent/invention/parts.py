"""What the driver (`invent.py`) is given, and what it tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from stitchcuda.agent.invention.machine import Event, Phase
from stitchcuda.agent.loop import Judge, Listener
from stitchcuda.agent.model.messages import Model
from stitchcuda.agent.outcome import Candidate, Stop
from stitchcuda.agent.proposing import Analyser
from stitchcuda.agent.roles.templates import Templates
from stitchcuda.agent.transforms.transform import Transform
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Decision:
    """One step: what happened in a phase, what came next. `detail` is for people and for the record: plain JSON values."""

    round: int
    phase: Phase
    event: Event
    next: Phase
    detail: Mapping[str, Any] = field(default_factory=dict)


class Measures(Protocol):
    """The new version against the best one as its original; None when that cannot be done. Raises Cancelled."""

    def __call__(self, new: Candidate, best: Candidate, declared: Declared) -> Verdict | None: ...


@dataclass(frozen=True)
class Parts:
    """`transforms` are tried again on top of a model's version. `sendable` leaves only what may be sent of texts by path, `hides`
    says whether something of a text was removed on its way to the model, `taken` whether there is a file of that name in truth. `begin_round` raises BudgetSpent. `decided` hears
    every step. `spent` is what the model cost so far, in words. `home` is the program's folder
    in the paths of verdicts; None: where it lies."""

    model: Model
    judge: Judge
    measure: Measures
    analyser: Analyser
    transforms: Sequence[Transform]
    listener: Listener
    templates: Templates
    rounds: int
    stopped: Callable[[], Stop | None] = lambda: None
    sendable: Callable[[Mapping[str, bytes]], Mapping[str, bytes]] = dict
    hides: Callable[[bytes], bool] = lambda text: False
    taken: Callable[[str], bool] = lambda path: False
    begin_round: Callable[[], None] = lambda: None
    decided: Callable[[Decision], None] = lambda decision: None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    spent: Callable[[], str] = lambda: ""
    home: Path | None = None
