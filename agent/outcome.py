"""What a run of the loop ends in, and how that follows from the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from stitchcuda.agent.transforms.transform import Refusal
from stitchcuda.agent.units import Unit
from stitchcuda.analysis.contract.types import Contract, Question
from stitchcuda.gpu_validate.hub import BaselineMeasured
from stitchcuda.gpu_validate.verdict import (
    GATES,
    REQUIRED,
    BoundResult,
    GateResult,
    GateState,
    Interval,
    Verdict,
    VerdictState,
)
from stitchcuda.gpu_validate.version import Version

if TYPE_CHECKING:
    from stitchcuda.agent.invention.handover import Invented

SPEEDS = ("latency", "cuda_span", "wall", "gpu_busy")  # by which versions are compared: the first one measured


class Kind(StrEnum):
    IMPROVED = "improved"
    BOUNDS_MET = "bounds_met"
    BEST_EFFORT = "best_effort"
    NO_SAFE_CHANGE = "no_safe_change"
    NOT_VALIDATED = "not_validated"
    FAILED = "failed"


class Stop(StrEnum):
    """Why the loop stopped."""

    CONTRACT_MET = "the contract is met"
    NOTHING_LEFT = "no proposal is left"
    BUDGET_SPENT = "the time was spent"
    CANCELLED = "it was cancelled"
    BASELINE = "the original does not run"
    # with a language model:
    NO_IDEA = "the model sees nothing more that is worth trying"
    GAVE_UP = "several plans of the model in a row brought nothing"
    OUT_OF_SCOPE = "the model went beyond what may be changed a second time"
    REPEATS = "the model repeats itself"
    UNREADABLE = "the model's replies cannot be used"
    REFUSED = "the model refuses to answer"
    NO_MODEL = "the model cannot be asked"
    UNCHECKED = "this machine cannot check what the model writes"
    ROUNDS_SPENT = "the rounds were spent"
    TOKENS_SPENT = "the tokens were spent"
    MONEY_SPENT = "the money was spent"
    GPU_SPENT = "the GPU time was spent"


STOP_OF_BUDGET = {  # by what a BudgetSpent names
    "rounds": Stop.ROUNDS_SPENT,
    "tokens": Stop.TOKENS_SPENT,
    "money": Stop.MONEY_SPENT,
    "time": Stop.BUDGET_SPENT,
    "GPU time": Stop.GPU_SPENT,
}


@dataclass(frozen=True)
class Candidate:
    """A choice of units (ids, in sequence) that was judged."""

    units: tuple[str, ...]
    version: Version
    verdict: Verdict

    @property
    def speedup(self) -> tuple[str, Interval] | None:
        return next(((name, self.verdict.speedup[name]) for name in SPEEDS if name in self.verdict.speedup), None)


@dataclass(frozen=True)
class Result:
    """`units` is the whole sequence, also what no accepted version holds. `best` is the version to offer: accepted, or a preview
    when the outcome is `not_validated`; None: the original stays. `reason` is for the user, `gates` the static ones."""

    outcome: Kind
    reason: str
    stopped: Stop
    contract: Contract
    baseline: BaselineMeasured
    units: tuple[Unit, ...] = ()
    best: Candidate | None = None
    judged: tuple[Candidate, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    question: Question | None = None
    invented: Invented | None = None  # when a model was asked


def best_of(judged: Sequence[Candidate]) -> Candidate | None:
    """The fastest accepted version; with none measured, the one with most units."""
    accepted = [c for c in judged if c.verdict.state is VerdictState.ACCEPTED]
    return max(accepted, key=lambda c: (c.speedup[1].middle if c.speedup else 0.0, len(c.units)), default=None)


def preview_of(judged: Sequence[Candidate]) -> Candidate | None:
    """The version with most units that nothing speaks against and that this machine could not check."""
    unproven = [c for c in judged if c.verdict.state is VerdictState.UNPROVEN and lacking(c.verdict)]
    return max(unproven, key=lambda c: len(c.units), default=None)


def lacking(verdict: Verdict) -> tuple[GateResult, ...]:
    """The gates that would have to be passed and were not run."""
    return tuple(g for g in verdict.gates if g.gate in REQUIRED and g.state is GateState.UNTESTED)


def why_lacking(verdict: Verdict) -> str:
    """Those gates with the reasons, gates of one reason together."""
    reasons: dict[str, list[str]] = {}
    for gate in lacking(verdict):
        reasons.setdefault(gate.reason, []).append(f"{gate.gate} {GATES[gate.gate]}")
    return "; ".join(f"{', '.join(gates)} ({reason})" for reason, gates in reasons.items())


def conclude(
    contract: Contract, baseline: BaselineMeasured, judged: Sequence[Candidate]
) -> tuple[Kind, str, Candidate | None, Question | None]:
    """The outcome, the sentence that explains it, the version to offer, and what to ask the user."""
    best = best_of(judged)
    if best is not None:
        return _with(best, contract)
    preview = preview_of(judged)
    if preview is not None:
        return Kind.NOT_VALIDATED, f"a preview, not checked here: {why_lacking(preview.verdict)}", preview, None
    if baseline.bounds and all(b.met for b in baseline.bounds):
        return Kind.BOUNDS_MET, "the original meets the contract already", None, None
    distance = _distance(baseline.bounds)
    if not judged:
        reason = "no change is both possible and proved safe"
    elif any(c.verdict.state is VerdictState.UNPROVEN for c in judged):
        reason = "what can be changed safely brings no gain that can be measured"
    else:
        reason = "every proposed change was rejected"
    return Kind.NO_SAFE_CHANGE, f"{reason}{'. ' + distance if distance else ''}", None, None


def _with(best: Candidate, contract: Contract) -> tuple[Kind, str, Candidate | None, Question | None]:
    bounds = best.verdict.bounds
    gained = _gained(best)
    if not contract.bounds:
        return Kind.IMPROVED, gained, best, None
    missed = [b for b in bounds if b.met is False]
    if missed:
        why = best.verdict.limits
        reason = f"{gained}. {_distance(missed)}{'. Now ' + why if why else ''}"
        return Kind.BEST_EFFORT, reason, best, _relax(contract, missed)
    unknown = [b for b in bounds if b.met is None]
    if unknown or len(bounds) < len(contract.bounds):
        reasons = "; ".join(b.reason for b in unknown if b.reason) or "not measured"
        return Kind.IMPROVED, f"{gained}. Whether the contract's bounds are met is not known: {reasons}", best, None
    return Kind.BOUNDS_MET, gained, best, None


def _gained(best: Candidate) -> str:
    if best.speedup is None:
        return "equal results, and no figure of its speed"
    name, interval = best.speedup
    return f"{name} {interval.middle:.2f} times as fast ({interval.low:.2f} to {interval.high:.2f})"


def _distance(bounds: Sequence[BoundResult]) -> str:
    """How far the unmet bounds are away, with the figures."""
    parts = []
    for result in bounds:
        if result.met is not False or result.measured is None:
            continue
        bound = result.bound
        asked = f"{bound['statistic']} {bound['metric']} {bound['relation']} {quantity(bound['value'], bound['unit'])}"
        ratio = _ratio(float(bound["value"]), result.measured)
        parts.append(f"{asked} is not met: measured {quantity(result.measured, bound['unit'])}{ratio}")
    return "; ".join(parts)


def _ratio(asked: float, measured: float) -> str:
    if asked <= 0 or measured <= 0:
        return ""
    return f", off by a factor of {max(asked / measured, measured / asked):.2f}"


def quantity(value: float, unit: str) -> str:
    """A figure as people write it: seconds in ms or us, bytes in MB."""
    if unit == "s":
        for size, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
            if value >= size:
                return f"{value / size:.4g} {name}"
        return f"{value / 1e-6:.4g} us"
    if unit == "B" and value >= 1e6:
        return f"{value / 1e6:.4g} MB"
    return f"{value:.4g}" if unit == "1" else f"{value:.4g} {unit}"


def _relax(contract: Contract, missed: Sequence[BoundResult]) -> Question | None:
    """Asks whether the first unmet bound may be relaxed to what was reached."""
    first = missed[0]
    if first.measured is None:
        return None
    fields = [
        k
        for k, b in enumerate(contract.bounds)
        if (b.metric, b.statistic, b.value) == (first.bound["metric"], first.bound["statistic"], first.bound["value"])
    ]
    reached = quantity(first.measured, first.bound["unit"])
    asked = f"{first.bound['metric']} {first.bound['relation']} {quantity(first.bound['value'], first.bound['unit'])}"
    return Question(
        f"bounds[{fields[0] if fields else 0}]",
        f"{asked} was not reached; the best version has {reached}. Relax the contract?",
        (f"accept {reached}", "keep the bound"),
    )
