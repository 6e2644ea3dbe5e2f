"""The loop: measure the original, propose, prove, judge, keep the best, and say why it stopped.

A function of its parts: what analyses, what judges and who listens are given, and nothing here knows a disk, a process or a
clock. All proved units are judged together, which is one build and one measurement; when that version is rejected, halves of
the units find out which of them are to blame (the units of one transform stay together as long as they can).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from stitchcuda.agent import versions
from stitchcuda.agent.invention.handover import Invented, Start
from stitchcuda.agent.outcome import Candidate, Kind, Result, Stop, conclude
from stitchcuda.agent.proposing import Analyser, Proposed, declared_of, propose, told
from stitchcuda.agent.transforms.transform import Proposal, Refusal, Transform
from stitchcuda.agent.units import Unit
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.analysis.syntax.text import LineIndex
from stitchcuda.gpu_validate.hub import BaselineMeasured
from stitchcuda.gpu_validate.runs import Cancelled
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.verdict import GateState, Verdict, VerdictState
from stitchcuda.gpu_validate.version import Version


class Judge(Protocol):
    """The validation hub (`gpu_validate/hub.py`), or what stands for it where nothing may be run."""

    def measure(self) -> BaselineMeasured:
        """Builds and runs the original. Raises Cancelled."""
        ...

    def judge(self, candidate: Version, declared: Declared) -> Verdict:
        """Raises Cancelled."""
        ...


class Listener(Protocol):
    """Who is told: the journal, a progress bar. `proposed` and `judged` come before anything rests on them."""

    def step(self, kind: str, sentence: str, data: Mapping[str, object]) -> None: ...

    def proposed(self, proposed: Proposed) -> None: ...

    def judged(self, candidate: Candidate) -> None: ...


Price = Callable[[Sequence[Proposal], Analysis], Sequence[float | None]]


@dataclass(frozen=True)
class Parts:
    """What the loop works with. `pricing` makes the analyser's price from the trace of the original, and says
    below how many seconds a proposal is not worth it. `stopped` says why to stop
    now, None to go on. `invent` goes on where the rules are through. Without `may_run` the judge measures nothing."""

    transforms: Sequence[Transform]
    analyser: Analyser
    judge: Judge
    listener: Listener
    stopped: Callable[[], Stop | None] = lambda: None
    pricing: Callable[[Trace], tuple[Price, float]] | None = None
    invent: Callable[[Start], Invented] | None = None
    may_run: bool = True


def stitch(baseline: Version, contract: Contract, parts: Parts) -> Result:
    """Runs the loop once. Raises what the parts raise, Cancelled excepted."""
    if parts.may_run:
        parts.listener.step("measure", "measuring the original", {})
    try:
        measured = parts.judge.measure()
    except Cancelled:
        stop = _why(parts)
        return Result(
            Kind.NO_SAFE_CHANGE, f"{stop.value} before the original was measured", stop, contract, BaselineMeasured()
        )
    if measured.problem:
        return Result(Kind.FAILED, measured.problem, Stop.BASELINE, contract, measured)
    if contract.bounds and len(measured.bounds) == len(contract.bounds) and all(b.met for b in measured.bounds):
        outcome, reason, _, _ = conclude(contract, measured, ())
        return Result(outcome, reason, Stop.CONTRACT_MET, contract, measured)
    analyser = parts.analyser
    if parts.pricing is not None and measured.trace is not None:
        price, noise = parts.pricing(measured.trace)
        analyser = replace(analyser, price=price, noise=noise)
    listener = parts.listener
    stopped = parts.stopped
    proposed = propose(baseline, contract, parts.transforms, analyser, listener.step, lambda: stopped() is not None)
    listener.proposed(proposed)
    search = Search(baseline, proposed, parts.judge, listener, stopped)
    kept: tuple[Unit, ...] = ()
    try:
        kept = search.settle((), proposed.units)
        stop = stopped() or Stop.NOTHING_LEFT
    except Cancelled:
        stop = _why(parts)
    outcome, reason, best, question = conclude(contract, measured, search.judged)
    if outcome is Kind.BOUNDS_MET and stop is Stop.NOTHING_LEFT:
        stop = Stop.CONTRACT_MET
    refusals = (*proposed.refusals, *search.refusals)
    units, judged, invented = proposed.units, tuple(search.judged), None
    if parts.invent is not None and stop is Stop.NOTHING_LEFT:
        left_out = frozenset(u.id for u in proposed.units) - {u.id for u in kept}
        start = Start(baseline, contract, measured, proposed, best, refusals, left_out, judged)
        invented = parts.invent(start)
        stop, units, judged = invented.stop, invented.units, (*judged, *invented.judged)
        refusals = (*refusals, *invented.refusals)
        answers = invented.offered[-1:] or search.judged  # each is better than those before it
        outcome, reason, best, question = conclude(contract, measured, answers)
    if outcome is Kind.NO_SAFE_CHANGE and stop in (Stop.BUDGET_SPENT, Stop.CANCELLED):
        reason = f"{stop.value} before a version was accepted"
    elif outcome is Kind.NO_SAFE_CHANGE and invented is not None:
        reason = f"{reason}. After {_rounds(invented.rounds)} of the model: {invented.problem or stop.value}"
    listener.step("end", f"{outcome.value}: {reason}", {"outcome": outcome.value, "stopped": stop.value})
    return Result(outcome, reason, stop, contract, measured, units, best, judged, refusals, question, invented)


def _rounds(count: int) -> str:
    return f"{count} round{'s' if count != 1 else ''}"


def _why(parts: Parts) -> Stop:
    return parts.stopped() or Stop.CANCELLED


class Search:
    """Judges choices of units until it knows which can stay."""

    def __init__(
        self,
        baseline: Version,
        proposed: Proposed,
        judge: Judge,
        listener: Listener,
        stopped: Callable[[], Stop | None],
    ) -> None:
        self._baseline = baseline
        self._proposed = proposed
        self._judging, self._listener, self._stopped = judge, listener, stopped
        self.judged: list[Candidate] = []
        self.refusals: list[Refusal] = []
        self._refused: set[str] = set()

    def settle(self, good: tuple[Unit, ...], todo: tuple[Unit, ...]) -> tuple[Unit, ...]:
        """`good` and those of `todo` that can stay with it. Raises Cancelled."""
        todo = self._standing(good, todo)
        if not todo:
            return good
        verdict = self._judge((*good, *todo))
        if verdict.state is not VerdictState.REJECTED:
            return (*good, *todo)
        if len(todo) == 1:
            self._refuse(todo[0], reason_of(verdict))
            return good
        middle = _middle(todo)
        return self.settle(self.settle(good, todo[:middle]), todo[middle:])

    def _standing(self, good: tuple[Unit, ...], todo: tuple[Unit, ...]) -> tuple[Unit, ...]:
        """Those of `todo` that still have what they build on; the others are refused."""
        here = {u.id for u in good}
        standing = []
        for unit in todo:
            if missing := [p for p in unit.parents if p not in here]:
                self._refuse(unit, f"it builds on {', '.join(missing)}, which was refused")
                continue
            here.add(unit.id)
            standing.append(unit)
        return tuple(standing)

    def _judge(self, units: tuple[Unit, ...]) -> Verdict:
        ids = {u.id for u in units}
        chosen = tuple(u for u in self._proposed.units if u.id in ids)
        if self._stopped() is not None:
            raise Cancelled
        texts = versions.compose(self._proposed.base, self._proposed.units, [u.id for u in chosen])
        version = self._baseline.with_texts(texts)
        known = next((c for c in self.judged if c.version.digest == version.digest), None)
        if known is not None:
            return known.verdict
        named = ", ".join(dict.fromkeys(u.transform for u in chosen))
        count = f"{len(chosen)} unit{'s' if len(chosen) != 1 else ''}"
        listener = self._listener
        listener.step("judge", f"validating {count} ({named})", {"units": [u.id for u in chosen]})
        verdict = self._judging.judge(version, declared_of(chosen))
        candidate = Candidate(tuple(u.id for u in chosen), version, verdict)
        self.judged.append(candidate)
        listener.judged(candidate)
        listener.step("judged", f"{verdict.state.value}: {count}", {"digest": version.digest})
        return verdict

    def _refuse(self, unit: Unit, reason: str) -> None:
        if unit.id in self._refused:
            return
        self._refused.add(unit.id)
        first = min(unit.edits, key=lambda e: (e.path, e.start))
        base = self._proposed.base
        earlier = self._proposed.units[: self._proposed.units.index(unit)]
        offset = versions.original_offset(base, earlier, first.path, first.start, unit.on)
        line = LineIndex.of(base.get(first.path, b"")).line_at(offset) + 1
        self.refusals.append(Refusal(unit.transform, first.path, line, reason))


def _middle(units: tuple[Unit, ...]) -> int:
    """Where to cut: between two transforms when there are several, as near the middle as that goes."""
    changes = [k for k in range(1, len(units)) if units[k].transform != units[k - 1].transform]
    return min(changes, key=lambda k: abs(2 * k - len(units)), default=len(units) // 2)


def reason_of(verdict: Verdict) -> str:
    """Why a version was not accepted, in a sentence."""
    if verdict.primary is not None:
        return f"{verdict.primary.issue}: {verdict.primary.why}"
    order = (GateState.FAILED, GateState.INCONCLUSIVE, GateState.UNTESTED)
    worst = min((g for g in verdict.gates if g.state in order), key=lambda g: order.index(g.state), default=None)
    return told(worst) if worst is not None else verdict.state.value
