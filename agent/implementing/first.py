"""What a run does first: missing stages are written, one after the other, and the program with them is what is improved then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stitchcuda.agent import versions
from stitchcuda.agent.implementing.bench import Bench
from stitchcuda.agent.implementing.implement import Parts, Written, implement
from stitchcuda.agent.implementing.marker import MarkerError
from stitchcuda.agent.implementing.stages import Stage, find_stages
from stitchcuda.agent.loop import Listener
from stitchcuda.agent.outcome import Candidate, Kind, Result, Stop, conclude, why_lacking
from stitchcuda.agent.proposing import Proposed, read_base
from stitchcuda.agent.units import Unit
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.gpu_validate.hub import BaselineMeasured
from stitchcuda.gpu_validate.runs import Cancelled
from stitchcuda.gpu_validate.verdict import Verdict, VerdictState
from stitchcuda.gpu_validate.version import Version

MakeParts = Callable[[Callable[[Version, bytes], Verdict], Callable[[Unit, Version, Verdict], Candidate]], Parts]
"""Parts for one stage, from what judges and what is told of it."""


def missing_stages(analysis: Analysis) -> tuple[Stage, ...]:
    """The stages that a program asks for. Raises MarkerError for the first one that cannot be had."""
    found = find_stages(analysis)
    if wrong := next((s for s in found if isinstance(s, MarkerError)), None):
        raise wrong
    return tuple(s for s in found if isinstance(s, Stage))


@dataclass
class Attempts:
    """The units of a run as they come, and what is told of them."""

    original: Version
    analysis: Analysis
    listener: Listener
    base: dict[str, bytes] = field(default_factory=dict)
    units: tuple[Unit, ...] = ()
    accepted: tuple[str, ...] = ()
    judged: list[Candidate] = field(default_factory=list)

    def add(self, unit: Unit, version: Version, verdict: Verdict) -> Candidate:
        """A version with one more unit than what is accepted so far."""
        self.base.update(read_base(self.original, sorted({e.path for e in unit.edits} - self.base.keys())))
        self.units = versions.extend(self.base, self.units, [replace(unit, parents=self.accepted)], self.accepted)
        candidate = Candidate((*self.accepted, self.units[-1].id), version, verdict)
        self.judged.append(candidate)
        self.listener.proposed(Proposed(self.units, (), dict(self.base), self.analysis, self.analysis))
        self.listener.judged(candidate)
        return candidate


@dataclass(frozen=True)
class Implemented:
    """`baseline` is the program with what was accepted. `stop` is why not all stages are there, None when they are; then `best`
    is their version."""

    baseline: Version
    so_far: Attempts
    measured: BaselineMeasured
    names: tuple[str, ...]
    best: Candidate | None = None
    stop: Stop | None = None
    reason: str = ""

    def alone(self, contract: Contract) -> Result:
        """The result of a run that ends here."""
        kind, reason, question = Kind.FAILED, self.reason, None
        if self.best is not None:
            kind, said, _, question = conclude(contract, self.measured, (self.best,))
            reason = f"{_listed(self.names)} written: {said}"
            if self.best.verdict.state is VerdictState.ACCEPTED:
                reason = f"{_listed(self.names)} written, with the results of the reference; {said}, compared with it"
            if self.stop is not None and self.stop is not Stop.UNCHECKED:
                kind, reason = Kind.BEST_EFFORT, f"{reason}. {self.reason}"
        return Result(
            kind,
            reason,
            self.stop or Stop.NOTHING_LEFT,
            contract,
            self.measured,
            self.so_far.units,
            self.best,
            tuple(self.so_far.judged),
            question=question,
        )

    def with_improved(self, result: Result, follower: Follower) -> Result:
        """The result of the run as a whole, `result` being that of what came after."""
        assert self.best is not None
        judged = (*self.so_far.judged, *map(follower.translated, result.judged))
        units = follower.units or self.so_far.units
        said = f"{_listed(self.names)} written, with the results of the reference"
        if result.best is not None:
            best = follower.translated(result.best)
            return replace(result, reason=f"{said}; then {result.reason}", units=units, best=best, judged=judged)
        kind = result.outcome
        if kind in (Kind.NO_SAFE_CHANGE, Kind.FAILED):
            bounds = result.baseline.bounds
            kind = Kind.BEST_EFFORT if any(b.met is False for b in bounds) else Kind.IMPROVED
        return replace(
            result, outcome=kind, reason=f"{said}; then {result.reason}", units=units, best=self.best, judged=judged
        )


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(f'`{n}`' for n in names)} {'is' if len(names) == 1 else 'are'}"


def implement_all(
    original: Version, contract: Contract, bench: Bench, listener: Listener, make: MakeParts
) -> Implemented:
    """Has every missing stage written, in the order of the sources; ends at the first that is not. Raises MarkerError, and what the
    bench, the analysis and the listener raise."""
    analysis = bench.tools.analyse(original)
    so_far = Attempts(original, analysis, listener)
    listener.proposed(Proposed((), (), {}, analysis, analysis))  # the record knows the original from the beginning
    baseline, measured, names, best = original, BaselineMeasured(), tuple[str, ...](), None
    while stages := missing_stages(bench.tools.analyse(baseline)):
        stage = stages[0]
        done = Implemented(baseline, so_far, measured, names, best)
        with bench.trying(baseline, stages) as trial:
            listener.step("measure", f"measuring with `{stage.marker.reference}` in place of `{stage.name}`", {})
            try:
                measured = trial.measure()
            except Cancelled:
                return replace(done, stop=Stop.CANCELLED, reason="cancelled before the reference was measured")
            if measured.problem:
                return replace(done, measured=measured, stop=Stop.BASELINE, reason=measured.problem)
            found = implement(stage, baseline, contract, make(trial.judge, so_far.add))
        if not isinstance(found, Written):
            return replace(done, measured=measured, stop=found.stop, reason=found.reason)
        best, names = found.candidate, (*names, stage.name)
        so_far.accepted = best.units
        baseline = original.with_texts(versions.compose(so_far.base, so_far.units, best.units))
        if best.verdict.state is not VerdictState.ACCEPTED:
            reason = f"a preview, not checked here: {why_lacking(best.verdict)}"
            return Implemented(baseline, so_far, measured, names, best, Stop.UNCHECKED, reason)
    return Implemented(baseline, so_far, measured, names, best)


class Follower:
    """Hears the part of the run that improves the implemented program, and passes it on as what it is: more units on top."""

    def __init__(self, done: Implemented) -> None:
        self._done = done
        self._renamed: dict[str, str] = {}
        self.units: tuple[Unit, ...] = ()

    def step(self, kind: str, sentence: str, data: Mapping[str, object]) -> None:
        self._done.so_far.listener.step(kind, sentence, data)

    def proposed(self, proposed: Proposed) -> None:
        done = self._done.so_far
        base = {**proposed.base, **done.base}
        units, on = done.units, done.accepted
        self._renamed = {}
        for unit in proposed.units:
            under = on if unit.on is None else (*done.accepted, *(self._renamed[u] for u in unit.on))
            parents = (*done.accepted, *(self._renamed[p] for p in unit.parents))
            units = versions.extend(base, units, [replace(unit, id="", parents=parents, on=None)], under)
            self._renamed[unit.id] = units[-1].id
            on = (*on, units[-1].id)
        self.units = units
        done.listener.proposed(replace(proposed, units=units, base=base, original=done.analysis))

    def judged(self, candidate: Candidate) -> None:
        self._done.so_far.listener.judged(self.translated(candidate))

    def translated(self, candidate: Candidate) -> Candidate:
        units = (*self._done.so_far.accepted, *(self._renamed[u] for u in candidate.units))
        return replace(candidate, units=units)
