"""Machinery for the commands that need no GPU, compiler or rules: a transform that removes `wait();` lines, an honest analysis of
the texts, and a hub that says what it is told to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from stitchcuda.agent.loop import Listener, Parts
from stitchcuda.agent.outcome import Candidate, Stop
from stitchcuda.agent.proposing import Analyser
from stitchcuda.agent.stitching import Machinery, Request
from stitchcuda.agent.transforms.transform import Outcome, Proposal, Refusal, Situation
from stitchcuda.agent.units import Obligation, TextEdit
from stitchcuda.analysis.index import Analysis, Index
from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.gpu_validate.hub import BaselineMeasured
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.verdict import GATES, GateResult, GateState, Interval, Verdict, decide
from stitchcuda.gpu_validate.verdict_json import verdict_to_json
from stitchcuda.gpu_validate.version import Version

ALL = tuple(GATES)


@dataclass(frozen=True)
class RemoveWaits:
    pattern: bytes
    ID: str = "remove-wait"

    def find(self, situation: Situation) -> Outcome:
        proposals, refusals = [], []
        for path, text in sorted(situation.analysis.sources.items()):
            for match in re.finditer(rb"[^\n]*" + self.pattern + rb"(?P<needed> // needed)?\r?\n", text):
                line = text.count(b"\n", 0, match.start()) + 1
                if match["needed"]:
                    refusals.append(Refusal(self.ID, path, line, "the host reads `x`"))
                    continue
                edit = TextEdit(path, match.start(), match.end(), b"")
                shown = (Obligation("nobody relies on it", "the order of the program"),)
                declared = Declared((self.ID,), waits=May.FEWER)
                proposals.append(Proposal(self.ID, "nothing relies on this wait", path, line, (edit,), declared, shown))
        return Outcome(tuple(proposals), tuple(refusals))


@dataclass
class MadeUp:
    """`untested` gates are said to be so; versions that hold none of `keep` are rejected. `judged` are those asked about."""

    untested: tuple[str, ...] = ()
    keep: bytes = b""
    problem: str = ""
    trace: Trace | None = None
    pattern: bytes = rb"wait\(\);"
    judged: list[Version] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    @contextmanager
    def machinery(
        self, request: Request, tell: Callable[[str], None], cancelled: Callable[[], bool]
    ) -> Iterator[Machinery]:
        self.requests.append(request)
        baseline = Version(request.root)

        def analyse(version: Version) -> Analysis:
            names = {p.name for p in version.folder.iterdir() if p.suffix == ".cu"} | set(version.texts)
            sources = {name: version.read(name) for name in sorted(names)}
            return replace(Index().analyse(), sources=sources)

        def check(before: Analysis, after: Analysis, declared: Declared) -> tuple[GateResult, ...]:
            return GateResult("G0", GateState.PASSED), GateResult("G1", GateState.PROVED)

        made = self

        class Hub:
            def measure(self) -> BaselineMeasured:
                return BaselineMeasured(made.problem, trace=made.trace)

            def judge(self, candidate: Version, declared: Declared) -> Verdict:
                tell("G2 build: building the version")
                made.judged.append(candidate)
                gates = []
                for name in GATES:
                    state, reason = GateState.PASSED, ""
                    if name in made.untested:
                        state, reason = GateState.UNTESTED, "this machine has no GPU"
                    if name == "G3" and made.keep and not any(made.keep in t for t in candidate.texts.values()):
                        state, reason = GateState.FAILED, "other results"
                    gates.append(GateResult(name, state, reason))
                speed = {} if "G6" in made.untested else {"latency": Interval(1.4, 1.5, 1.6)}
                return Verdict(decide(gates), tuple(gates), speed)

        def parts(listener: Listener, stopped: Callable[[], Stop | None]) -> Parts:
            return Parts([RemoveWaits(made.pattern)], Analyser(analyse, check), Hub(), listener, stopped)

        def measure(version: Version) -> Candidate | None:
            verdict = Hub().judge(version, Declared())
            return Candidate((), version, replace(verdict, speedup={"latency": Interval(2.9, 3.0, 3.1)}))

        yield Machinery(parts, verdict_to_json, measure=measure)
        assert baseline.texts == {}
