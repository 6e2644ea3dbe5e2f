"""An engine small enough to misbehave on demand, for tests of the server around it.

`hazard(x)` is a finding with a fix to `safe(x)`; `k<<<g, b>>>` a launch. Words in the text: SLOW takes ten seconds but
honours cancellation, STUCK does not, RAISE raises, CRASH ends the process, LATER offers for a second what stands before it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from stitchcuda.analysis.findings.finding import Confidence, Edit, Finding, Fix, Group, Related, Severity
from stitchcuda.analysis.order.timeline import Op, Stream, StreamKind, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Block, Function, Module, Problem, Program, Site, TypeRef

_HAZARD = re.compile(rb"hazard\((\w+)\)")
_LAUNCH = re.compile(rb"(\w+)<<<(\w+), *(\w+)>>>\([^)]*\)")


@dataclass(frozen=True)
class FakeAnalysis:
    program: Program
    timelines: tuple[Timeline, ...] = ()
    findings: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = ()
    sources: dict[str, bytes] = field(default_factory=dict)
    complete: bool = True


class FakeIndex:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def put(self, path: str, text: bytes) -> None:
        self.files[path] = text

    def drop(self, path: str) -> None:
        self.files.pop(path, None)

    def analyse(
        self,
        cancel: Callable[[], bool] | None = None,
        offer: Callable[[Callable[[], FakeAnalysis]], bool] | None = None,
        first: str = "",
    ) -> FakeAnalysis:
        end = time.monotonic() + 1
        while offer is not None and b"LATER" in self.files.get(first, b"") and time.monotonic() < end:
            offer(lambda: self._all({path: text.partition(b"LATER")[0] for path, text in self.files.items()}))
            if cancel is not None and cancel():
                break
            time.sleep(0.01)
        every = b"\n".join(self.files.values())
        if b"CRASH" in every:
            os._exit(9)
        if b"RAISE" in every:
            raise RuntimeError("secret source text")
        end = time.monotonic() + 10
        while b"SLOW" in every or b"STUCK" in every:
            if b"SLOW" in every and (time.monotonic() > end or (cancel is not None and cancel())):
                break
            time.sleep(0.01)
        return self._all(self.files)

    def _all(self, files: dict[str, bytes]) -> FakeAnalysis:
        functions = {path: _function(path, text) for path, text in files.items()}
        modules = {path: Module(path, "cuda", (function,)) for path, function in functions.items()}
        program = Program(modules, {f.uid: f for f in functions.values()})
        findings = [f for path, text in files.items() for f in _findings(path, text)]
        return FakeAnalysis(program, (_timeline(files),), tuple(findings), (), dict(files))


def _function(path: str, text: bytes) -> Function:
    block = Block((0, len(text)), ())
    return Function(path + "::f", "f", "f", path, 0, (0, len(text)), (0, 1), (), TypeRef("void"), block)


def _findings(path: str, text: bytes) -> list[Finding]:
    found = []
    for match in _HAZARD.finditer(text):
        site = Site(path + "::f", path, match.span())
        fixes = (
            Fix("Make it safe", (Edit(Site(path + "::f", path, match.span()), f"safe({match[1].decode()})"),), True),
            Fix("Remove it", (Edit(site, ""),)),
        )
        related = (Related(Site("", path, (0, 1)), "the earlier access"),)
        confidence = Confidence.POSSIBLE if match[1] == b"maybe" else Confidence.CERTAIN
        found.append(
            Finding("stream-race-raw", Group.CORRECTNESS, Severity.ERROR, confidence, site, "a hazard", related, fixes)
        )
    return found


def _timeline(files: dict[str, bytes]) -> Timeline:
    ops: list[Op] = []
    for path, text in files.items():
        for match in _LAUNCH.finditer(text):
            kernel, grid, block = (group.decode() for group in match.groups())
            site = Site(path + "::f", path, match.span())
            ops.append(
                Op(
                    len(ops),
                    len(ops),
                    ApiKind.LAUNCH,
                    "<<<>>>",
                    site,
                    path + "::f",
                    kernel=kernel,
                    stream=0,
                    grid=grid,
                    block=block,
                )
            )
    none = tuple(0 for _ in ops)
    streams = (Stream(0, "default", StreamKind.LEGACY, True),)
    return Timeline("f", "static", tuple(ops), none, none, none, (), (), streams, (), ())
