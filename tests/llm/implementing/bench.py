"""A bench that needs no GPU: the analysis and what a definition may do are the real ones, results are read in a definition's text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from stitchcuda.agent.implementing import fits
from stitchcuda.agent.implementing.assumed import assumed_texts
from stitchcuda.agent.implementing.bench import Bench
from stitchcuda.agent.implementing.reference import files_of
from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.gates.g0_structure import g0
from stitchcuda.gpu_validate.hub import BaselineMeasured
from stitchcuda.gpu_validate.primary import primary_of
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.verdict import GATES, GateFinding, GateResult, GateState, Interval, Verdict, decide
from stitchcuda.gpu_validate.version import Version

FAILS = {"G2": (b"NO_BUILD", "identifier is undefined"), "G3": (b"OTHER_RESULTS", "stdout line 1 is '3', not '2'")}


@dataclass
class Seen:
    """What was tried: the stages that stood in, and the definitions."""

    trials: list[tuple[str, ...]] = field(default_factory=list)
    definitions: list[bytes] = field(default_factory=list)


@dataclass(frozen=True)
class ScriptedTrial:
    bench: ScriptedBench
    baseline: Version
    stage: Stage

    def measure(self) -> BaselineMeasured:
        return BaselineMeasured(self.bench.problem, {} if self.bench.problem else {"cuda_span": {"baseline": 0.01}})

    def judge(self, version: Version, definition: bytes) -> Verdict:
        self.bench.seen.definitions.append(definition)
        gates: list[GateResult] = []
        before, after = (self.bench.tools.analyse(v) for v in (self.baseline, version))
        texts = {path: self.baseline.read(path) for path in files_of([self.stage])}
        promised = self.bench.tools.analyse(self.baseline.with_texts(assumed_texts(texts, [self.stage])))
        real = {"G0": g0(promised, after), "G1": fits.gate(before, after, self.stage, definition)}
        for name in GATES:
            mark, reason = FAILS.get(name, (b"\0", ""))
            if any(g.state is GateState.FAILED for g in gates):
                gates.append(GateResult(name, GateState.UNTESTED, "not run"))
            elif name in real:
                gates.append(real[name])
            elif name in self.bench.untested:
                gates.append(GateResult(name, GateState.UNTESTED, "there is no GPU"))
            elif mark in definition:
                found = GateFinding(reason, self.stage.file, 1)
                gates.append(GateResult(name, GateState.FAILED, reason, findings=(found,)))
            else:
                gates.append(GateResult(name, GateState.PASSED))
        good = decide(gates)
        speed = {} if self.bench.untested else {"cuda_span": Interval(2.9, 3.0, 3.1)}
        return Verdict(good, tuple(gates), speed, primary=primary_of(gates))


@dataclass(frozen=True)
class ScriptedBench(Bench):
    problem: str = ""
    untested: tuple[str, ...] = ()
    seen: Seen = field(default_factory=Seen)

    @contextmanager
    def trying(self, baseline: Version, stages: Sequence[Stage]) -> Iterator[Any]:
        self.seen.trials.append(tuple(s.name for s in stages))
        yield ScriptedTrial(self, baseline, stages[0])


def scripted_bench(problem: str = "", untested: tuple[str, ...] = ()) -> ScriptedBench:
    return ScriptedBench(real_tools(), Project(), Contract(), problem=problem, untested=untested)
