"""The bench on which definitions of missing stages are tried: the validation hub, with the reference version as the original.

Results and times are compared with the reference version, structure and order with the user's own sources. While one of several
stages is tried, the others stand in for themselves on both sides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stitchcuda.agent.implementing import fits
from stitchcuda.agent.implementing.assumed import assumed_texts
from stitchcuda.agent.implementing.blame import with_callers_own
from stitchcuda.agent.implementing.implement import DECLARED
from stitchcuda.agent.implementing.marker import MarkerError
from stitchcuda.agent.implementing.memory import NewShapes, memory_of
from stitchcuda.agent.implementing.reference import MOST_STAGES, Written, files_of, reference_texts
from stitchcuda.agent.implementing.stages import Stage, find_stages
from stitchcuda.agent.implementing.traces import as_launches, done_inside
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract, Tolerance
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program import cuda
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.building.model import BuildFailed, Built
from stitchcuda.gpu_validate.hub import BaselineMeasured, Hub, HubOptions, Progress
from stitchcuda.gpu_validate.primary import primary_of
from stitchcuda.gpu_validate.processes import Ended
from stitchcuda.gpu_validate.tools import Builds, Tools
from stitchcuda.gpu_validate.trace.model import Call, Trace
from stitchcuda.gpu_validate.trace.session import TraceRequest
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState, Verdict, VerdictState
from stitchcuda.gpu_validate.version import Version

ROUNDING = 1e-4  # relative difference up to which results are taken for the same but for rounding
_NEAR = 100 * ROUNDING  # a printed number may be a small difference of large ones
_PRINTED = re.compile(r"is '(.*)', the baseline prints '(.*)'$")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_GOOD = (GateState.PASSED, GateState.PROVED)
_SAYS = "stitchcuda: the reference cannot stand for "  # what a stand-in prints before it gives up


class CannotTry(Exception):
    """There is no place for the builds, or the contract or project cannot be run. The text is for the user."""


@dataclass(frozen=True)
class Bench:
    """Everything of the machine is in `tools`."""

    tools: Tools
    project: Project
    contract: Contract
    progress: Callable[[Progress], None] = lambda _: None
    cancelled: Callable[[], bool] = lambda: False
    options: HubOptions | None = None

    @contextmanager
    def trying(self, baseline: Version, stages: Sequence[Stage]) -> Iterator[Trial]:
        """Where the first of the stages that `baseline` lacks is tried. Raises CannotTry."""
        wares = _Wares(self.tools, stages[0], baseline)
        reference = wares.with_stand_ins(baseline, stages)
        tolerance = stages[0].marker.tolerance or self.contract.tolerance
        with self._hub(reference, wares.tools(), tolerance) as hub:
            yield Trial(hub, wares, lambda version: self._rounding(reference, wares, version))

    def _hub(self, reference: Version, tools: Tools, tolerance: Tolerance) -> Hub:
        contract = replace(self.contract, tolerance=tolerance)
        try:
            return Hub(
                reference,
                self.project,
                contract,
                tools,
                options=self.options,
                progress=self.progress,
                cancelled=self.cancelled,
            )
        except OSError as error:
            raise CannotTry(f"{error.filename}: no folder for the builds can be made ({error.strerror})") from None
        except ValueError as error:
            raise CannotTry(str(error)) from None

    def _rounding(self, reference: Version, wares: _Wares, version: Version) -> float | None:
        """The largest relative difference of a version whose results differ by little; None when they differ by more, or when it
        cannot be told. Raises Cancelled."""
        tools = replace(wares.tools(), memory=_not_now)
        with self._hub(reference, tools, Tolerance("relative", rtol=ROUNDING)) as hub:
            result = hub.judge(version, DECLARED).gate("G3")
        if result is None or result.state is not GateState.PASSED:
            return None
        return max((b.get("max_relative", 0.0) for b in result.evidence.get("buffers", ())), default=0.0)


def _not_now(*_: object, **__: object) -> GateResult:
    return GateResult("G4", GateState.FAILED, "only the results are looked at")  # ends the judgement


@dataclass(frozen=True)
class Trial:
    """One stage on the bench."""

    hub: Hub
    wares: _Wares
    rounding: Callable[[Version], float | None]

    def measure(self) -> BaselineMeasured:
        """Builds and runs the reference version. Raises Cancelled."""
        measured = self.hub.measure()
        if not measured.problem:
            return measured
        said = f" ({self.wares.said})" if self.wares.said else ""
        return replace(measured, problem=f"with the reference in place of what is missing, {measured.problem}{said}")

    def judge(self, version: Version, definition: bytes) -> Verdict:
        """The verdict on a version that defines the stage. A stage that is right is accepted without a gain as well: there was
        nothing that it could be slower than. Raises Cancelled."""
        self.wares.judged, self.wares.definition = version, definition
        rest = self.wares.missing_in(version)
        written = None if self.wares.stage.is_kernel else Written(self.wares.stage, definition)
        whole = self.wares.with_stand_ins(version, rest, written)
        verdict = self.hub.judge(whole, DECLARED)
        states = {g.gate: g.state for g in verdict.gates}
        right = all(states.get(name) in _GOOD for name in ("G0", "G1", "G2", "G3", "G4"))
        if verdict.state is VerdictState.UNPROVEN and right and states.get("G6") is GateState.INCONCLUSIVE:
            return replace(verdict, state=VerdictState.ACCEPTED, primary=None)
        if self.hub.contract.tolerance.mode == "bitwise" and _may_be_rounding(verdict.gate("G3")):
            return self._with_rounding(verdict, whole)
        return verdict

    def _with_rounding(self, verdict: Verdict, version: Version) -> Verdict:
        """Says so where the results differ by rounding alone."""
        most = self.rounding(version)
        if most is None:
            return verdict
        said = f" (at most {most:.1e} of the value)" if most else ""
        reason = f"the results are those of the reference but for rounding{said}, and they must be bitwise equal"
        gates = tuple(
            replace(g, reason=f"{reason}: {g.reason}", findings=(GateFinding(reason), *g.findings))
            if g.gate == "G3"
            else g
            for g in verdict.gates
        )
        primary = primary_of(gates)
        assert primary is not None
        return replace(verdict, gates=gates, primary=replace(primary, issue=reason, fix=_fix(most)))


def _may_be_rounding(results: GateResult | None) -> bool:
    """Whether results that differ may do so by rounding alone: no printed number is far from the reference's."""
    if results is None or results.state is not GateState.FAILED:
        return False
    for finding in results.findings:
        said = _PRINTED.search(finding.what)
        if said is None:
            continue
        one, other = (list(map(float, _NUMBER.findall(text))) for text in said.groups())
        if len(one) != len(other) or not all(
            math.isclose(a, b, rel_tol=_NEAR) for a, b in zip(one, other, strict=True)
        ):
            return False
    return True


def _fix(most: float) -> str:
    enough = 10.0 ** (math.floor(math.log10(most)) + 1) if most else 1e-6
    return (
        "round as the host does: the order of the reference's additions, and __fmul_rn and __fadd_rn where it multiplies and adds; "
        f'or allow the difference in the comment, with tolerance="rtol {enough:.0e}"'
    )


@dataclass(frozen=True, slots=True)
class _Marked:
    """The stages between whose marks a version runs something, by number: names, which are host stages, which one it defines."""

    names: tuple[str, ...] = ()
    hosts: frozenset[int] = frozenset()
    written: int = -1


class _Wares:
    """The hub's tools for versions with stand-ins."""

    def __init__(self, tools: Tools, stage: Stage, baseline: Version) -> None:
        self._tools, self._baseline = tools, baseline
        self._seen: dict[str, Version] = {}  # by the digest of a version with stand-ins: the one to analyse
        self._marked: dict[str, _Marked] = {}  # by the same digest
        self.stage = stage
        self.judged = baseline  # the version that is judged, as the user would have it
        self.builds: dict[str, _Marked] = {}  # the same, by the name of a build
        self.placed: str = ""
        self.definition = b""
        self.said = ""
        self.inside: tuple[Call, ...] = ()  # what the host stage did in the last full run of a version that defines it

    def with_stand_ins(self, version: Version, stages: Sequence[Stage], written: Written | None = None) -> Version:
        """The version to build and run."""
        stages = stages[:MOST_STAGES]
        if not stages and written is None:
            return version
        texts = {path: version.read(path) for path in files_of(stages, written)}
        whole = version.with_texts(reference_texts(texts, stages, written))
        self._seen[whole.digest] = version.with_texts(assumed_texts(texts, stages))
        every = [*stages, *([written.stage] if written is not None else [])]
        self._marked[whole.digest] = _Marked(
            tuple(s.function.qualified for s in every),
            frozenset(number for number, s in enumerate(every) if not s.is_kernel),
            len(stages) if written is not None else -1,
        )
        return whole

    def analyse(self, version: Version) -> Analysis:
        """Of the user's sources, with what the declaration of a missing host stage promises."""
        return self._tools.analyse(self._seen.get(version.digest, version))

    def missing_in(self, version: Version) -> list[Stage]:
        return [s for s in find_stages(self._tools.analyse(version)) if not isinstance(s, MarkerError)]

    def tools(self) -> Tools:
        return replace(
            self._tools,
            analyse=self.analyse,
            structure=self._structure,
            order=self._order,
            builder=self._builder,
            memory=memory_of(self._tools.memory, self._kernels, self._shapes),
            run_traced=self._run_traced,
        )

    def _kernels(self) -> tuple[str, ...]:
        """Those of the definition."""
        if self.stage.is_kernel:
            return (self.stage.name,)
        return tuple(f.name for f in cuda.lower_module("", self.definition).functions if f.space == "global")

    def _shapes(self, known: NewShapes) -> NewShapes:
        """What a host stage launches shows in no trace any more: all of it counts as launched otherwise."""
        if known is None or any("GraphLaunch" in call.api for call in self.inside):
            return None
        return known | {call.kernel for call in self.inside if call.kernel}

    def _structure(self, before: Analysis, after: Analysis) -> GateResult:
        return self._tools.structure(with_callers_own(before, after, self.stage), after)

    def _order(self, before: Analysis, after: Analysis, declared: Declared) -> GateResult:
        before, after = self._tools.analyse(self._baseline), self._tools.analyse(self.judged)
        return fits.gate(before, after, self.stage, self.definition)

    def _builder(
        self, baseline: Version, project: Project, *, scratch: Path, arch: str | None, cancel: Callable[[], bool]
    ) -> Builds:
        return _Builds(self._tools.builder(baseline, project, scratch=scratch, arch=arch, cancel=cancel), self)

    def marked_in(self, version: Version) -> _Marked:
        return self._marked.get(version.digest, _Marked())

    def _run_traced(self, command: Sequence[str], *, request: TraceRequest, **rest: Any) -> tuple[Ended, Trace | None]:
        marked = self.builds.get(self.placed, _Marked())
        ended, trace = self._tools.run_traced(command, request=request, **rest)
        if not marked.names:
            return ended, trace
        lines = [line for line in ended.stderr.decode("utf-8", "replace").splitlines() if line.startswith(_SAYS)]
        self.said = lines[0].removeprefix("stitchcuda: ") if lines else self.said
        if trace is None:
            return ended, trace
        operations = request.mode == "full" or request.operations
        hosts, written = marked.hosts, marked.written
        if written >= 0 and request.mode == "full":
            self.inside = done_inside(trace, len(marked.names), written)
        return ended, as_launches(trace, marked.names, operations=operations, hosts=hosts, written=written)


@dataclass(frozen=True)
class _Builds:
    """A builder that says which build is where programs are run."""

    builds: Builds
    wares: _Wares

    def build(self, version: Version) -> Built | BuildFailed:
        built = self.builds.build(version)
        if isinstance(built, Built):
            self.wares.builds[built.name] = self.wares.marked_in(version)
        return built

    def placed(self, built: Built) -> AbstractContextManager[Path]:
        return self._placed(built)

    @contextmanager
    def _placed(self, built: Built) -> Iterator[Path]:
        with self.builds.placed(built) as folder:
            self.wares.placed = built.name
            try:
                yield folder
            finally:
                self.wares.placed = ""
