"""One run from start to end: the journal is opened, the loop runs with the real parts, and the result is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from stitchcuda.agent import journal, loop, versions
from stitchcuda.agent.blueprint import Blueprint, blueprint_to_json
from stitchcuda.agent.implementing.bench import Bench
from stitchcuda.agent.implementing.first import Follower
from stitchcuda.agent.implementing.running import CannotImplement, MakesBench, stages_to_write, write_stages
from stitchcuda.agent.implementing.running import Surroundings as Writing
from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.agent.invention.anchoring import with_anchor
from stitchcuda.agent.invention.asking import Asked, Asking, Stopping, Surroundings, with_model
from stitchcuda.agent.invention.parts import Measures
from stitchcuda.agent.journal import Run
from stitchcuda.agent.loop import Listener, Parts
from stitchcuda.agent.outcome import Candidate, Result, Stop
from stitchcuda.agent.recording import Recorder
from stitchcuda.agent.restricting import restricted
from stitchcuda.agent.result_json import result_to_json
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract, contract_to_json
from stitchcuda.gpu_validate.trace.store import to_json as trace_to_json
from stitchcuda.gpu_validate.verdict import Verdict
from stitchcuda.gpu_validate.verdict_json import verdict_to_json
from stitchcuda.gpu_validate.version import Version

MOST_TRACED = 200_000  # calls and operations of a trace that is kept: some 30 MB


class CannotStart(Exception):
    """The machinery cannot be set up for this request. The text is for the user."""


@dataclass(frozen=True)
class Request:
    """What to stitch: a program (a folder or one source file) and what is wanted of it. `seconds` is the time to spend."""

    root: Path
    contract: Contract
    project: Project
    seconds: float | None = None
    stitchcuda: str = ""  # the version that the journal names
    may_run: bool = True  # False: nothing is built or run, as in a folder that the user does not trust
    intent: str = ""  # the words that the contract was read from; a model is asked for what they say beside it
    reference: Mapping[str, bytes] | None = None  # texts of a version to measure beside the best one
    rules: bool = True  # whether the rules propose
    asking: Asking | None = None  # the model that proposes, after the rules
    texts: Mapping[str, bytes] = field(
        default_factory=dict
    )  # of files as they are to be taken, in place of what is there
    only: tuple[str, ...] = ()  # ids of the transforms that may propose; empty: all
    within: tuple[str, ...] = ()  # functions in which they may change something; empty: everywhere


@dataclass(frozen=True)
class Machinery:
    """What runs a request: parts of the loop but for who listens, the JSON of a verdict, and what plans a blueprint."""

    parts: Callable[[Listener, Callable[[], Stop | None]], Parts]
    verdict: Callable[[Verdict], Mapping[str, Any]]
    blueprint: Callable[[Result], Blueprint | None] = lambda result: None
    measure: Callable[[Version], Candidate | None] = lambda version: (
        None
    )  # a version that nobody judges; None: it cannot
    against: Measures = lambda new, best, declared: None
    capabilities: Callable[[], Mapping[str, Any]] = dict


class MakeMachinery(Protocol):
    """The machinery of a request, for as long as the context is open. Raises CannotStart."""

    def __call__(
        self, request: Request, tell: Callable[[str], None], cancelled: Callable[[], bool]
    ) -> AbstractContextManager[Machinery]: ...


@dataclass(frozen=True)
class Stitched:
    """`base` holds the original texts of the edited files that exist; `folder` is the run's."""

    result: Result
    base: Mapping[str, bytes]
    folder: Path
    blueprint: Blueprint | None = None
    reference: Candidate | None = None  # as far as it could be measured
    asked: Asked | None = None
    value: Mapping[str, Any] = field(default_factory=dict)  # as JSON, paths relative to the program's folder

    @property
    def after(self) -> dict[str, bytes]:
        """The edited files of the best version; empty when there is none."""
        best = self.result.best
        return versions.compose(self.base, self.result.units, best.units) if best is not None else {}


def stitch(
    request: Request,
    listener: Listener,
    make: MakeMachinery,
    *,
    bench: MakesBench | None = None,
    tell: Callable[[str], None] = lambda message: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Stitched:
    """Runs the request. `tell` is called with what the hub is doing. Missing stages are written first, on the `bench`; without one
    they are not looked for. Raises JournalError, and what the analysis raises for a file that cannot be read (OSError),
    CannotStart."""
    stopping = Stopping(cancelled, request.seconds, time.monotonic)

    def trying(contract: Contract) -> Bench | None:
        return bench(request.project, contract, tell, lambda: stopping() is not None) if bench else None

    trials = trying(request.contract)
    asked = None if request.asking is None else Asked(request.asking)
    baseline = Version(request.root)
    stages = _missing(baseline, trials, asked, request.may_run) if trials is not None else ()
    run = journal.start(request.root, stitchcuda=request.stitchcuda)
    if asked is not None:
        contract = _anchored(request, baseline, asked, run, listener, stopping)
        if contract != request.contract:
            request = replace(request, contract=contract)
            trials = trying(contract)
    run.write("contract.json", contract_to_json(request.contract))
    run.write("project.json", _project_json(request.project))
    if request.only or request.within:
        run.event("restricted", only=list(request.only), within=list(request.within))

    if not stages or trials is None or asked is None:
        with make(request, tell, lambda: stopping() is not None) as machinery:
            recorder = Recorder(run, baseline, machinery.verdict, listener)
            done = _improved(request, run, recorder, machinery, stopping, asked)
        return _ended(run, done, recorder, asked, machinery.verdict)
    recorder = Recorder(run, baseline, verdict_to_json, listener)
    around = Writing(run, recorder, stopping, time.monotonic)
    try:
        written = write_stages(baseline, stages, request.contract, trials, asked, around)
    except CannotImplement as error:
        raise CannotStart(str(error)) from None
    if written.stop is not None or not request.rules:
        return _ended(run, (written.alone(request.contract), None, None), recorder, asked, verdict_to_json)
    follower = Follower(written)
    request = replace(request, texts=written.baseline.texts, asking=None)
    with make(request, tell, lambda: stopping() is not None) as machinery:
        result, blueprint, reference = _improved(request, run, follower, machinery, stopping, None)
    done = written.with_improved(result, follower), blueprint, reference
    return _ended(run, done, recorder, asked, machinery.verdict)


def _anchored(
    request: Request, baseline: Version, asked: Asked, run: Run, listener: Listener, stopping: Stopping
) -> Contract:
    """The contract as it is fixed: with what a model read in the words as well."""

    def step(kind: str, sentence: str, data: Mapping[str, Any]) -> None:
        run.event(kind, sentence=sentence, **data)
        listener.step(kind, sentence, data)

    return with_anchor(baseline, request.intent, request.contract, asked, run, step, stopping, time.monotonic)


def _missing(baseline: Version, trials: Bench, asked: Asked | None, may_run: bool) -> tuple[Stage, ...]:
    """The stages that have to be written first. Raises CannotStart."""
    try:
        return stages_to_write(baseline, trials, asked, may_run=may_run)
    except CannotImplement as error:
        raise CannotStart(str(error)) from None


_Done: TypeAlias = tuple[Result, Blueprint | None, Candidate | None]


def _improved(
    request: Request,
    run: Run,
    listener: Listener,
    machinery: Machinery,
    stopping: Stopping,
    asked: Asked | None,
) -> _Done:
    """The loop: its result, the blueprint of the best version, and the version measured beside it."""
    baseline = Version(request.root, request.texts)
    parts = machinery.parts(listener, stopping)
    parts = replace(parts, transforms=restricted(parts.transforms, request.only, request.within))
    if request.asking is not None and asked is not None:
        around = Surroundings(
            run, listener, stopping, machinery.against, machinery.verdict, time.monotonic, machinery.capabilities
        )
        parts = with_model(parts, request.asking, around, rules=request.rules, asked=asked)
    result = loop.stitch(baseline, request.contract, parts)
    trace = result.baseline.trace
    if trace is not None and len(trace.calls) + len(trace.ops) <= MOST_TRACED:
        run.trace(trace_to_json(trace))
    blueprint = machinery.blueprint(result)
    reference = None
    if request.reference is not None and result.best is not None and result.best.verdict.speedup:
        reference = machinery.measure(baseline.with_texts(request.reference))
    return result, blueprint, reference


def _ended(
    run: Run,
    done: _Done,
    recorder: Recorder,
    asked: Asked | None,
    verdict: Callable[[Verdict], Mapping[str, Any]],
) -> Stitched:
    """Writes the result."""
    result, blueprint, reference = done
    if blueprint is not None:
        run.write("blueprint.json", blueprint_to_json(blueprint))
    run.refusals(result.refusals)
    value = result_to_json(
        result, recorder.base, verdict=verdict, blueprint=blueprint, run_dir=str(run.folder), asked=asked
    )
    run.write("result.json", value)
    return Stitched(result, recorder.base, run.folder, blueprint, reference, asked, value)


def _project_json(project: Project) -> dict[str, Any]:
    """The project as it was, without the values of environment variables: they may be secrets."""
    value = asdict(project)
    value["run"]["env"] = sorted(project.run.env)
    return value
