"""The validation hub: the gates of a version against the original, in order, and the verdict they add up to.

The original is analysed, built and run once and serves for every candidate. A gate that cannot be run is `untested` or
`inconclusive` and says why; nothing missing is ever a pass. What touches the machine is in `Tools`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Self

from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.bounds import Measured, bound_results
from stitchcuda.gpu_validate.building.model import BuildFailed, Built
from stitchcuda.gpu_validate.cache_folder import cache_folder
from stitchcuda.gpu_validate.element_types import element_types
from stitchcuda.gpu_validate.figures import FIGURES, Figures, chosen_statistic, figures_of
from stitchcuda.gpu_validate.gates.g3_equivalence import BaselineResults, Equivalence, equivalence, observe_baseline
from stitchcuda.gpu_validate.gates.g6_latency import TIMED, Budget, Latency, Side, latency
from stitchcuda.gpu_validate.gates.lowered_precision import with_precision
from stitchcuda.gpu_validate.gates.traced_races import TracedRaces, TracedRun, traced_races, with_traced_races
from stitchcuda.gpu_validate.invocations import Starts, find_starts
from stitchcuda.gpu_validate.limits import limits_of
from stitchcuda.gpu_validate.observe.contents import kinds
from stitchcuda.gpu_validate.observe.exchanges import Exchange, exchanges_of
from stitchcuda.gpu_validate.observe.shown import Shown
from stitchcuda.gpu_validate.observe.work import new_shapes
from stitchcuda.gpu_validate.primary import primary_of
from stitchcuda.gpu_validate.removal import remove_if_possible
from stitchcuda.gpu_validate.runs import Cancelled, Case, Room, cases
from stitchcuda.gpu_validate.source_loops import source_loops
from stitchcuda.gpu_validate.statistics import LOOKS
from stitchcuda.gpu_validate.tools import Builds, Tools
from stitchcuda.gpu_validate.trace.library import NoTracer
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.unread import unread_changes
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
from stitchcuda.gpu_validate.version import Version

__all__ = ["BaselineMeasured", "Cancelled", "Hub", "HubOptions", "Progress", "Tools"]

_GOOD = (GateState.PASSED, GateState.PROVED)
_NOT_YET = {
    "G5": "order on the machine is not checked against a blueprint in this version",
    "G7": "saturation is not measured in this version",
}
_BEGINS = {
    "G0": "reading the sources",
    "G1": "comparing the order of accesses",
    "G2": "building",
    "G3": "comparing results",
    "G4": "comparing the order of the traced runs",
    "G6": "timing",
}
_MEASURING_RUNS = 5  # of the original alone


@dataclass(frozen=True)
class HubOptions:
    """`runs` is the most timed runs of each version (never more than the last look at them needs: looking once more would give
    chance one more chance), `seconds` the most time for timing one candidate. `sanitizer` names the
    tools of G4, all when empty. `scratch` is a folder of our own (default: below the user's cache folder), kept with `keep`."""

    delays: bool = False
    runs: int = 2 * LOOKS[-1]
    seconds: float = 300.0
    sanitizer: tuple[str, ...] = ()
    scratch: Path | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """What the hub is doing, for a person; `gate` is "" before the first one."""

    gate: str
    sentence: str


@dataclass(frozen=True)
class BaselineMeasured:
    """The original alone. `problem` is why it does not build or run, "" when it does or when this machine cannot tell."""

    problem: str = ""
    measured: Mapping[str, Any] = field(default_factory=dict)
    bounds: tuple[BoundResult, ...] = ()
    trace: Trace | None = None


class _Skip(Exception):
    """A gate that cannot be run, with its state and the reason."""

    def __init__(self, reason: str, state: GateState = GateState.UNTESTED) -> None:
        super().__init__(reason)
        self.state = state


class Hub:
    """Judges versions of one program. Use it as a context manager: it owns a scratch folder. One call at a time."""

    def __init__(
        self,
        baseline: Version,
        project: Project,
        contract: Contract,
        tools: Tools,
        *,
        options: HubOptions | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Raises OSError when the scratch folder cannot be made, ValueError for a contract or project that cannot be run."""
        self.baseline, self.project, self.contract = baseline, project, contract
        self._tools, self._options = tools, options or HubOptions()
        self._progress, self._cancelled = progress, cancelled
        self._cases = cases(project, contract)
        parent = self._options.scratch or cache_folder() / "work"
        parent.mkdir(parents=True, exist_ok=True)
        self.scratch = Path(tempfile.mkdtemp(prefix="hub-", dir=parent))
        self._builder: Builds | None = None
        self._analysis: Analysis | None = None
        self._room: Room | None = None
        self._results: BaselineResults | None = None
        self._starts: Starts | None = None
        self._gpu: str | None = None
        self._gate = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the scratch folder, unless it is to be kept."""
        if not self._options.keep:
            remove_if_possible(self.scratch)

    # ------------------------------------------------------------------------------------------------------- questions

    def judge(self, candidate: Version, declared: Declared, *, all_gates: bool = False) -> Verdict:
        """The verdict on a version. Every gate is in it; after a failure the others are not run unless `all_gates`. Raises
        Cancelled."""
        return _Judgement(self, candidate, declared, all_gates).verdict()

    def measure(self) -> BaselineMeasured:
        """Builds and runs the original alone. Raises Cancelled."""
        built = self.builder().build(self.baseline)
        self._stop_if_cancelled()
        if isinstance(built, BuildFailed):
            return BaselineMeasured("" if built.missing_tool else f"the original does not build: {built.reason}")
        try:
            self.need_gpu()
            results = self.results(built)
        except _Skip:
            return BaselineMeasured()
        if results.problem:
            return BaselineMeasured(results.problem)
        room, starts, chosen = self.room(built), self.starts(), chosen_statistic(self.contract)
        shown: list[Shown] = []
        for k in range(_MEASURING_RUNS + 1):
            self.tell(f"timing the original {k}/{_MEASURING_RUNS}" if k else "warming up")
            shown.append(room.run_with_memory(TIMED, self._cases[0]))
            if not shown[-1].ended.ok and shown[-1].ended.code != results.observed[0].expected.code:
                return BaselineMeasured(f"the original {shown[-1].ended.describe()}")
        runs = [figures_of(s, starts, chosen) for s in shown[1:]]
        measured = {name: {"baseline": median(values)} for name in FIGURES if (values := _values(runs, name))}
        numbers = Measured(
            [s for r in runs for s in r.invocations],
            _values(runs, "cuda_span") if starts.once else (),
            None,
            results.full,
            starts.reason,
        )
        return BaselineMeasured("", measured, bound_results(self.contract, numbers), results.full)

    # ------------------------------------------------------------------------------------- the original, once for all

    def analysis(self) -> Analysis:
        self._analysis = self._analysis or self._tools.analyse(self.baseline)
        return self._analysis

    def builder(self) -> Builds:
        if self._builder is None:
            self._builder = self._tools.builder(
                self.baseline,
                self.project,
                scratch=self.scratch / "builds",
                arch=self.contract.hardware.arch,
                cancel=self._cancelled,
            )
        return self._builder

    def need_gpu(self) -> None:
        """Raises _Skip without a GPU that works."""
        if self._gpu is None:
            self._gpu = self._tools.gpu()
        if self._gpu:
            raise _Skip(self._gpu)

    def look_at_gpu(self, shown: Equivalence) -> None:
        """Asks whether the GPU still works after runs of which one may have hung it."""
        if shown.result.state is not GateState.PASSED and not self._gpu:
            self._gpu = self._tools.gpu()

    def room(self, built: Built) -> Room:
        """Where a version runs. Raises _Skip when there is no tracer or nothing to run."""
        try:
            return Room(
                lambda: self.builder().placed(built),
                built.run_command,
                self.project,
                self._tools.run_traced,
                scratch=self.scratch,
                library=self._tools.library(),
                cancelled=self._cancelled,
            )
        except (ValueError, NoTracer) as error:
            raise _Skip(str(error)) from error

    def results(self, built: Built) -> BaselineResults:
        if self._results is None:
            observe, tolerance = self.project.observe, self.contract.tolerance
            self._results = observe_baseline(
                self.room(built),
                self._cases,
                observe,
                tolerance,
                delays=self._options.delays,
                told=self.tell,
                kinds=lambda full: kinds(full.reads, self.contract, element_types(full, self.analysis())),
            )
        return self._results

    def starts(self) -> Starts:
        full = self._results.full if self._results else None
        if self._starts is None:
            missing = Starts(reason="there is no full trace")
            self._starts = missing if full is None else self.starts_of(full, self.analysis())
        return self._starts

    def starts_of(self, full: Trace, analysis: Analysis) -> Starts:
        return find_starts(full, source_loops(analysis, self.contract.scope), self.contract.scope)

    def tell(self, sentence: str) -> None:
        self._progress(Progress(self._gate, sentence))
        self._stop_if_cancelled()

    def enter(self, gate: str) -> None:
        """From now on that gate is worked on."""
        self._gate = gate
        self.tell(_BEGINS[gate])

    def _stop_if_cancelled(self) -> None:
        if self._cancelled():
            raise Cancelled

    @property
    def cancelled(self) -> Callable[[], bool]:
        return self._cancelled

    @property
    def tools(self) -> Tools:
        return self._tools

    @property
    def options(self) -> HubOptions:
        return self._options

    @property
    def first_case(self) -> Case:
        return self._cases[0]


class _Judgement:
    """One version on its way through the gates."""

    def __init__(self, hub: Hub, candidate: Version, declared: Declared, all_gates: bool) -> None:
        self._hub, self._candidate, self._declared, self._all = hub, candidate, declared, all_gates
        self._gates: dict[str, GateResult] = {}
        self._after: Analysis | None = None
        self._built: tuple[Built, Built] | None = None
        self._equivalence: Equivalence | None = None
        self._latency: Latency | None = None
        self._exchanges: tuple[Exchange, ...] = ()

    def verdict(self) -> Verdict:
        steps: Mapping[str, Callable[[], GateResult]] = {
            "G0": self._structure,
            "G1": self._order,
            "G2": self._build,
            "G3": self._equal,
            "G4": self._memory,
            "G6": self._faster,
        }
        for gate in GATES:
            self._gates[gate] = self._step(gate, steps.get(gate))
        gates = tuple(self._gates[gate] for gate in GATES)
        return Verdict(
            decide(gates), gates, self._speedup(), self._bounds(), primary_of(gates), self._measured(), self._limits()
        )

    def _step(self, gate: str, run: Callable[[], GateResult] | None) -> GateResult:
        if run is None:
            return GateResult(gate, GateState.UNTESTED, _NOT_YET[gate])
        failed = next((g.gate for g in self._gates.values() if g.state is GateState.FAILED), None)
        if failed is not None and not self._all:
            return GateResult(gate, GateState.UNTESTED, f"not run: {failed} ({GATES[failed]}) failed")
        self._hub.enter(gate)
        try:
            return run()
        except _Skip as skip:
            return GateResult(gate, skip.state, str(skip))

    # ----------------------------------------------------------------------------------------------------------- gates

    def _structure(self) -> GateResult:
        self._after = self._hub.tools.analyse(self._candidate)
        hub = self._hub
        result = hub.tools.structure(hub.analysis(), self._after)
        return with_precision(result, hub.analysis(), self._after, (hub.baseline, self._candidate), hub.contract)

    def _order(self) -> GateResult:
        if self._after is None:
            raise _Skip("the version was not analysed")
        result = self._hub.tools.order(self._hub.analysis(), self._after, self._declared)
        self._exchanges = exchanges_of(result.evidence)
        unread = unread_changes(self._hub.baseline, self._candidate, self._after)
        if unread and result.state in _GOOD:
            more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
            reason = f"{unread[0]}{more} changed too, which the proof does not read"
            return replace(result, state=GateState.UNTESTED, reason=reason)
        return result

    def _build(self) -> GateResult:
        builder = self._hub.builder()
        self._hub.tell("building the original")
        before = builder.build(self._hub.baseline)
        if isinstance(before, BuildFailed):
            return self._hub.tools.build(before, before)
        self._hub.tell("building the version")
        after = builder.build(self._candidate)
        self._hub.tell("comparing the builds")
        if isinstance(after, Built):
            self._built = (before, after)
        return self._hub.tools.build(before, after)

    def _equal(self) -> GateResult:
        before, after = self._need_runs()
        room = self._hub.room(after)
        self._equivalence = equivalence(
            self._hub.results(before), room, self._declared, told=self._hub.tell, exchanges=self._exchanges
        )
        self._hub.look_at_gpu(self._equivalence)
        result = self._equivalence.result
        return replace(result, findings=tuple(self._as_given(f) for f in result.findings))

    def _as_given(self, finding: GateFinding) -> GateFinding:
        """With the path in the candidate as the user gave it, where it is relative to the program."""
        relative = finding.path and not Path(finding.path).is_absolute()
        return replace(finding, path=str(self._candidate.folder / finding.path)) if relative else finding

    def _memory(self) -> GateResult:
        before, after = self._need_runs()
        hub = self._hub
        traced = self._traced_races(before)
        if traced.new and not self._all:
            return with_traced_races(None, traced)
        hub.tell("asking compute-sanitizer")
        sanitized = hub.tools.memory(
            hub.builder(),
            before,
            after,
            hub.project,
            hub.options.sanitizer,
            hub.first_case,
            self._new_shapes(before),
            scratch=hub.scratch,
            cancelled=hub.cancelled,
        )
        return with_traced_races(sanitized, traced)

    def _traced_races(self, before: Built) -> TracedRaces:
        hub = self._hub
        full = self._equivalence.full if self._equivalence else None
        old = TracedRun(hub.results(before).full, hub.analysis())
        found = traced_races(old, TracedRun(full, self._after or hub.analysis()))
        new, told = (tuple(map(self._as_given, findings)) for findings in (found.new, found.told))
        return replace(found, new=new, told=told)

    def _new_shapes(self, before: Built) -> frozenset[str] | None:
        one = self._hub.results(before).full
        other = self._equivalence.full if self._equivalence else None
        return None if one is None or other is None else new_shapes(one, other)

    def _faster(self) -> GateResult:
        before, after = self._need_runs()
        shown = self._equivalence
        if shown is None or (shown.result.state is not GateState.PASSED and not self._all):
            state = shown.result.state.value if shown else "untested"
            raise _Skip(f"not run: G3 (equivalence) is {state}")
        observed = self._hub.results(before).observed
        if not observed:
            raise _Skip("the original was not run", GateState.INCONCLUSIVE)
        if before.program_digest and before.program_digest == after.program_digest:
            raise _Skip(
                "the build is the same program, byte for byte: there is nothing to gain", GateState.INCONCLUSIVE
            )
        starts = Starts(reason="there is no full trace")
        if shown.full is not None and self._after is not None:
            starts = self._hub.starts_of(shown.full, self._after)
        self._latency = latency(
            Side(self._hub.room(before), self._hub.starts()),
            Side(self._hub.room(after), starts),
            observed[0],
            self._declared,
            self._hub.contract,
            Budget(max(1, min(self._hub.options.runs // 2, LOOKS[-1])), self._hub.options.seconds),
            self._hub.tools.machine,
            self._hub.tell,
            self._exchanges,
        )
        return self._latency.result

    def _need_runs(self) -> tuple[Built, Built]:
        """Raises _Skip when the versions were not built or there is no GPU to run them on."""
        self._hub.need_gpu()
        if self._built is None:
            raise _Skip(f"not run: {self._gates['G2'].reason or 'the version was not built'}")
        return self._built

    # --------------------------------------------------------------------------------------------------------- numbers

    def _speedup(self) -> Mapping[str, Interval]:
        return self._latency.speedup if self._latency else {}

    def _measured(self) -> Mapping[str, Any]:
        return self._latency.measured if self._latency else {}

    def _limits(self) -> str:
        full = self._equivalence.full if self._equivalence else None
        if full is None or self._after is None or self._latency is None:
            return ""
        found = limits_of(full, self._hub.starts_of(full, self._after))
        if found is None:
            return ""
        name = "latency" if found.of == "invocation" else "cuda_span"
        return found.sentence(self._latency.measured.get(name, {}).get("candidate"))

    def _bounds(self) -> tuple[BoundResult, ...]:
        found = self._latency
        full = self._equivalence.full if self._equivalence else None
        if found is None:
            return bound_results(self._hub.contract, Measured(full=full, why_no_invocations="times were not measured"))
        governs = found.result.evidence.get("governing")
        why = dict(found.result.evidence.get("missing", {})).get("latency", "")
        speedup = found.speedup.get(str(governs))
        spans = found.spans if self._hub.starts().once else ()
        return bound_results(self._hub.contract, Measured(found.invocations, spans, speedup, full, why))


def _values(runs: list[Figures], name: str) -> list[float]:
    return [r.seconds[name] for r in runs if name in r.seconds]
