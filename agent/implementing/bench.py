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
from stitchcuda.agent.implementing.implement import DECLARED
from stitchcuda.agent.implementing.marker import MarkerError
from stitchcuda.agent.implementing.memory import memory_of
from stitchcuda.agent.implementing.reference import MOST_STAGES, reference_texts
from stitchcuda.agent.implementing.stages import Stage, find_stages
from stitchcuda.agent.implementing.traces import as_launches
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract, Tolerance
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.building.model import BuildFailed, Built
from stitchcuda.gpu_validate.hub import BaselineMeasured, Hub, HubOptions, Progress
from stitchcuda.gpu_validate.primary import primary_of
from stitchcuda.gpu_validate.processes import Ended
from stitchcuda.gpu_validate.tools import Builds, Tools
from stitchcuda.gpu_validate.trace.model import Trace
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
        wares = _Wares(self.tools, stages[0])
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
        self.wares.definition = definition
        rest = [s for s in find_stages(self.wares.analyse(version)) if not isinstance(s, MarkerError)]
        whole = self.wares.with_stand_ins(version, rest)
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


class _Wares:
    """The hub's tools for versions with stand-ins."""

    def __init__(self, tools: Tools, stage: Stage) -> None:
        self._tools, self._stage = tools, stage
        self._plain: dict[str, Version] = {}  # by the digest of a version with stand-ins: the one without
        self._kernels: dict[str, tuple[str, ...]] = {}  # by the same digest
        self.builds: dict[str, tuple[str, ...]] = {}  # the same, by the name of a build
        self.placed: str = ""
        self.definition = b""
        self.said = ""

    def with_stand_ins(self, version: Version, stages: Sequence[Stage]) -> Version:
        stages = stages[:MOST_STAGES]
        if not stages:
            return version
        texts = {path: version.read(path) for path in dict.fromkeys(s.path for s in stages)}
        whole = version.with_texts(reference_texts(texts, stages))
        self._plain[whole.digest] = version
        self._kernels[whole.digest] = tuple(s.kernel.qualified for s in stages)
        return whole

    def analyse(self, version: Version) -> Analysis:
        return self._tools.analyse(self._plain.get(version.digest, version))

    def tools(self) -> Tools:
        return replace(
            self._tools,
            analyse=self.analyse,
            order=self._order,
            builder=self._builder,
            memory=memory_of(self._tools.memory, self._stage.name),
            run_traced=self._run_traced,
        )

    def _order(self, before: Analysis, after: Analysis, declared: Declared) -> GateResult:
        return fits.gate(before, after, self._stage, self.definition)

    def _builder(
        self, baseline: Version, project: Project, *, scratch: Path, arch: str | None, cancel: Callable[[], bool]
    ) -> Builds:
        return _Builds(self._tools.builder(baseline, project, scratch=scratch, arch=arch, cancel=cancel), self)

    def kernels_of(self, version: Version) -> tuple[str, ...]:
        return self._kernels.get(version.digest, ())

    def _run_traced(self, command: Sequence[str], *, request: TraceRequest, **rest: Any) -> tuple[Ended, Trace | None]:
        kernels = self.builds.get(self.placed, ())
        ended, trace = self._tools.run_traced(command, request=request, **rest)
        if not kernels:
            return ended, trace
        lines = [line for line in ended.stderr.decode("utf-8", "replace").splitlines() if line.startswith(_SAYS)]
        self.said = lines[0].removeprefix("stitchcuda: ") if lines else self.said
        if trace is None:
            return ended, trace
        return ended, as_launches(trace, kernels, operations=request.mode == "full" or request.operations)


@dataclass(frozen=True)
class _Builds:
    """A builder that says which build is where programs are run."""

    builds: Builds
    wares: _Wares

    def build(self, version: Version) -> Built | BuildFailed:
        built = self.builds.build(version)
        if isinstance(built, Built):
            self.wares.builds[built.name] = self.wares.kernels_of(version)
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
