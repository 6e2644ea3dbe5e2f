"""The real parts of a run: the rules, the analysis and its proof, the validation hub and what plans a blueprint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from stitchcuda.agent.blueprint import Blueprint
from stitchcuda.agent.loop import Judge, Listener, Parts, Price
from stitchcuda.agent.outcome import Candidate, Result, Stop
from stitchcuda.agent.plan import make_blueprint
from stitchcuda.agent.pricing import pricing
from stitchcuda.agent.proposing import Analyser
from stitchcuda.agent.stitching import CannotStart, Machinery, Request
from stitchcuda.agent.transforms import TRANSFORMS
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.gpu_validate.capabilities import device_facts
from stitchcuda.gpu_validate.gates.lowered_precision import with_precision
from stitchcuda.gpu_validate.hub import BaselineMeasured, Cancelled, Hub, Progress, Tools
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.verdict import GATES, GateResult, GateState, Verdict, decide
from stitchcuda.gpu_validate.verdict_json import verdict_to_json
from stitchcuda.gpu_validate.version import Version

NOISE = 0.001  # of the CUDA span: a single change that saves less is not proposed
ANYTHING = Declared(("reference",), May.ANY, May.ANY, May.ANY, May.ANY)


def static_analyser() -> Analyser:
    """The analysis and the proof alone: they need no machine."""
    tools = real_tools()
    return Analyser(tools.analyse, _Checks(tools).both)


@contextmanager
def real_machinery(request: Request, tell: Callable[[str], None], cancelled: Callable[[], bool]) -> Iterator[Machinery]:
    """What runs a request on this machine. Raises CannotStart when there is no place for the builds, and for a project or
    contract that cannot be run."""
    baseline = Version(request.root, request.texts)
    tools = real_tools()
    checks = _Checks(tools)

    def parts(judge: Judge) -> Callable[[Listener, Callable[[], Stop | None]], Parts]:
        analyser = Analyser(tools.analyse, checks.both)
        return lambda listener, stopped: Parts(
            TRANSFORMS, analyser, judge, listener, stopped, _pricing, may_run=request.may_run
        )

    def blueprint(result: Result) -> Blueprint | None:
        if result.best is None:
            return None
        after = tools.analyse(result.best.version)
        return make_blueprint(tools.analyse(baseline), after, result.baseline.trace)

    if not request.may_run:
        unrun = _Unrun(baseline, request.contract, tools.analyse, checks.both)
        yield Machinery(parts(unrun), verdict_to_json, blueprint)
        return
    real = replace(tools, order=checks.order)
    switch = _Switch(real)

    def progress(step: Progress) -> None:
        named = f"{step.gate} {GATES[step.gate]}" if step.gate else ""
        tell(": ".join(part for part in (named, step.sentence) if part and part != GATES.get(step.gate)) or named)

    try:
        hub = Hub(baseline, request.project, request.contract, switch.tools(), progress=progress, cancelled=cancelled)
    except OSError as error:
        raise CannotStart(f"{error.filename}: no folder for the builds can be made ({error.strerror})") from None
    except ValueError as error:
        raise CannotStart(str(error)) from None
    with hub:

        def measure(version: Version) -> Candidate | None:
            switch.only_measure = True
            tell("measuring the reference beside it")
            try:
                verdict = hub.judge(version, ANYTHING, all_gates=True)
            except Cancelled:
                return None
            return Candidate((), version, verdict) if verdict.speedup else None

        def against(new: Candidate, best: Candidate, declared: Declared) -> Verdict | None:
            """The best version takes the place of the original, in a hub of its own."""
            try:
                beside = Hub(
                    best.version, request.project, request.contract, real, progress=progress, cancelled=cancelled
                )
            except (OSError, ValueError):
                return None
            with beside:
                return beside.judge(new.version, declared)

        yield Machinery(parts(hub), verdict_to_json, blueprint, measure, against, device_facts)


def _pricing(trace: Trace) -> tuple[Price, float]:
    last = max((op.end for op in trace.ops), default=trace.context_end)
    return pricing(trace), NOISE * max(last - trace.context_end, 0) / 1e9


class _Checks:
    """G0 and G1 of two analyses, the last few kept: the loop proves a version before the hub is asked about it."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._known: list[tuple[Analysis, Analysis, Declared, tuple[GateResult, GateResult]]] = []

    def both(self, before: Analysis, after: Analysis, declared: Declared) -> tuple[GateResult, ...]:
        for known in self._known:
            if known[0] is before and known[1] is after and known[2] == declared:
                return known[3]
        gates = self._tools.structure(before, after), self._tools.order(before, after, declared)
        self._known = [*self._known[-3:], (before, after, declared, gates)]
        return gates

    def order(self, before: Analysis, after: Analysis, declared: Declared) -> GateResult:
        return self.both(before, after, declared)[1]


@dataclass
class _Unrun:
    """Judges where nothing may be built or run: by the analysis alone."""

    baseline: Version
    contract: Contract
    analyse: Callable[[Version], Analysis]
    check: Callable[[Analysis, Analysis, Declared], tuple[GateResult, ...]]

    def measure(self) -> BaselineMeasured:
        return BaselineMeasured()

    def judge(self, candidate: Version, declared: Declared) -> Verdict:
        before, after = self.analyse(self.baseline), self.analyse(candidate)
        done = {g.gate: g for g in self.check(before, after, declared)}
        done["G0"] = with_precision(done["G0"], before, after, (self.baseline, candidate), self.contract)
        why = "nothing was to be built or run"
        gates = tuple(done.get(name, GateResult(name, GateState.UNTESTED, why)) for name in GATES)
        return Verdict(decide(gates), gates)


class _Switch:
    """The hub's tools; a version that is only to be measured is neither proved nor sanitized."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.only_measure = False

    def tools(self) -> Tools:
        def skipping(gate: str, run: Callable[..., GateResult]) -> Callable[..., GateResult]:
            def either(*arguments: Any, **named: Any) -> GateResult:
                if self.only_measure:
                    return GateResult(gate, GateState.UNTESTED, "it is only measured")
                return run(*arguments, **named)

            return either

        return replace(
            self._tools,
            structure=skipping("G0", self._tools.structure),
            order=skipping("G1", self._tools.order),
            memory=skipping("G4", self._tools.memory),
        )
