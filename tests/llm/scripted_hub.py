"""A program, and machinery that needs no GPU: the analysis is the real one, the hub reads in a version's text what it shall find.

A version fails G2 with `NO_BUILD` in it, and so on (`MARKS`); `// speed 1.5` makes it that much faster than the original. So the
verdict is a function of the text, as that of a real hub is of what the text does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stitchcuda.agent.loop import Listener, Parts
from stitchcuda.agent.outcome import Candidate, Stop
from stitchcuda.agent.proposing import Analyser
from stitchcuda.agent.stitching import Machinery, Request
from stitchcuda.agent.transforms.transform import Transform
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.hub import BaselineMeasured
from stitchcuda.gpu_validate.primary import primary_of
from stitchcuda.gpu_validate.runs import Cancelled
from stitchcuda.gpu_validate.verdict import (
    GATES,
    BoundResult,
    GateFinding,
    GateResult,
    GateState,
    Interval,
    Verdict,
    decide,
)
from stitchcuda.gpu_validate.verdict_json import verdict_to_json
from stitchcuda.gpu_validate.version import Version

from tests.cli.made_up_machinery import RemoveWaits

MAIN = """\
#include <cstdio>
#include "kernels.cuh"

int main() {
    float *x;
    cudaMalloc(&x, 4096 * sizeof(float));
    wait();
    for (int k = 0; k < 10; ++k) {
        scale<<<16, 256>>>(x, 4096);
        shift<<<16, 256>>>(x, 4096);
    }
    float first;
    cudaMemcpy(&first, x, sizeof(float), cudaMemcpyDeviceToHost);
    printf("%f\\n", first);
    cudaFree(x);
    return 0;
}
"""
KERNELS = """\
#pragma once

__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 1.5f;
}

__global__ void shift(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 2.0f;
}
"""
FILES = {"main.cu": MAIN, "kernels.cuh": KERNELS, "CMakeLists.txt": "add_executable(main main.cu)\n"}

MARKS: dict[str, tuple[bytes, str, dict[str, str]]] = {
    "G0": (b"NEW_HAZARD", "unordered reads and writes", {}),
    "G1": (b"ORDER_LOST", "a copy no longer waits for the kernel", {}),
    "G2": (b"NO_BUILD", "identifier is undefined", {}),
    "G3": (b"OTHER_RESULTS", "stdout line 1 is '3.5', the baseline prints '3.0'", {}),
    "G4": (b"A_RACE", "compute-sanitizer reports a race", {}),
    "G6": (b"SLOWER", "latency is 1.2 times as long", {}),
}
HANGS = b"NEVER_ENDS"
UNREAD = b"NOT_FOLLOWED"  # the analysis cannot follow it
UNSURE = b"NO_GAIN"  # nothing that can be measured
NEEDS_WAIT = b"FOR_RULES"  # only together with what the rules do then is there a gain
SPEED = re.compile(rb"// speed ([\d.]+)(?: to ([\d.]+))?")


def write_program(folder: Path, files: dict[str, str] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (files or FILES).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder


@dataclass
class ScriptedHub:
    """`untested` gates cannot be run here. `bound` is a latency in seconds that the contract asks for: the original has 0.01.
    `slow` makes every judgement take that long, unless it is cancelled. `beside` is how a version does when it is measured beside
    another one."""

    untested: tuple[str, ...] = ()
    problem: str = ""
    slow: float = 0.0
    beside: Interval | None = None
    transforms: tuple[Transform, ...] = (RemoveWaits(rb"wait\(\);"),)
    analyser: Analyser = field(default_factory=lambda: Analyser(analyse, check))
    judged: list[Version] = field(default_factory=list)
    compared: list[tuple[str, str]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    @contextmanager
    def machinery(
        self, request: Request, tell: Callable[[str], None], cancelled: Callable[[], bool]
    ) -> Iterator[Machinery]:
        self.requests.append(request)
        hub = _Hub(self, request, tell, cancelled)

        def parts(listener: Listener, stopped: Callable[[], Stop | None]) -> Parts:
            return Parts(self.transforms, self.analyser, hub, listener, stopped)

        def against(new: Candidate, best: Candidate, declared: Declared) -> Verdict | None:
            self.compared.append((new.version.digest, best.version.digest))
            if self.beside is None:
                return None
            gain = GateState.PASSED if self.beside.low > 1.02 else GateState.INCONCLUSIVE
            gates = tuple(
                GateResult(g, gain if g == "G6" else GateState.PASSED, "" if g != "G6" else "?") for g in GATES
            )
            return Verdict(decide(gates), gates, {"latency": self.beside}, primary=primary_of(gates))

        yield Machinery(parts, verdict_to_json, against=against, capabilities=lambda: {"gpu": "made up"})


def check(before: Analysis, after: Analysis, declared: Declared) -> tuple[GateResult, ...]:
    return GateResult("G0", GateState.PASSED), GateResult("G1", GateState.PROVED)


@dataclass
class _Hub:
    script: ScriptedHub
    request: Request
    tell: Callable[[str], None]
    cancelled: Callable[[], bool]

    def measure(self) -> BaselineMeasured:
        if self.script.problem or "G6" in self.script.untested:
            return BaselineMeasured(self.script.problem)
        return BaselineMeasured("", {"latency": {"baseline": 0.01}}, self._bounds(1.0))

    def judge(self, candidate: Version, declared: Declared) -> Verdict:
        self.script.judged.append(candidate)
        self._work()
        text = b"\n".join(candidate.read(p) for p in sorted({"main.cu", "kernels.cuh", *candidate.texts}))
        gates = tuple(self._gates(text))
        state, speed = decide(gates), _speed(text)
        measured = all(g.state in (GateState.PASSED, GateState.PROVED) for g in gates if g.gate in ("G2", "G3", "G6"))
        return Verdict(
            state,
            gates,
            {"latency": speed} if measured else {},
            self._bounds(speed.middle) if measured else (),
            primary_of(gates),
            {"latency": {"baseline": 0.01, "candidate": 0.01 / speed.middle, "runs": 12}} if measured else {},
            "launches limit it" if measured else "",
        )

    def _work(self) -> None:
        import time

        end = time.monotonic() + self.script.slow
        while not self.cancelled() and time.monotonic() < end:
            time.sleep(0.01)
        if self.cancelled():
            raise Cancelled

    def _gates(self, text: bytes) -> Iterator[GateResult]:
        failed = ""
        for name in GATES:
            mark, reason, evidence = MARKS.get(name, (b"\0", "", {}))
            if failed:
                yield GateResult(name, GateState.UNTESTED, f"not run: {failed} failed")
            elif name in self.script.untested:
                yield GateResult(name, GateState.UNTESTED, "there is no GPU")
            elif mark in text or (name == "G3" and HANGS in text):
                failed = name
                if HANGS in text:
                    reason, evidence = (
                        "the program was stopped: it went over its limit of seconds",
                        {"stopped": "seconds"},
                    )
                line = next((k for k, l in enumerate(text.split(b"\n"), 1) if mark in l), 1)
                found = GateFinding(reason, str(self.request.root / "main.cu"), line)
                yield GateResult(name, GateState.FAILED, reason, evidence, (found,))
            elif name == "G1" and UNREAD in text:
                yield GateResult(name, GateState.UNTESTED, "an indirect call is not followed")
            elif name == "G6" and (
                UNSURE in text or _speed(text).low <= 1.02 or NEEDS_WAIT in text and b"wait();" in text
            ):
                yield GateResult(name, GateState.INCONCLUSIVE, "no gain that can be told from chance")
            else:
                yield GateResult(name, GateState.PROVED if name == "G1" else GateState.PASSED)

    def _bounds(self, speed: float) -> tuple[BoundResult, ...]:
        found = []
        for bound in self.request.contract.bounds:
            value = {"metric": bound.metric, "statistic": bound.statistic, "relation": bound.relation}
            value |= {"value": bound.value, "unit": bound.unit}  # type: ignore[dict-item]
            found.append(BoundResult(value, 0.01 / speed, 0.01 / speed < bound.value))
        return tuple(found)


def _speed(text: bytes) -> Interval:
    """A version without `wait();` is a twentieth faster, whoever removed it."""
    rule = 1.0 if b"wait();" in text else 1.05
    match = SPEED.search(text)
    if match is None:
        return Interval(rule * 0.99, rule, rule * 1.01)
    low = float(match[1])
    high = float(match[2]) if match[2] else low * 1.02
    return Interval(low, (low + high) / 2, high)
