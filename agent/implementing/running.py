"""The part of a run that has missing stages written: who is asked, what it may be sent and cost, and where it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from stitchcuda.agent.implementing import replaying
from stitchcuda.agent.implementing.bench import Bench, CannotTry
from stitchcuda.agent.implementing.first import Implemented, implement_all, missing_stages
from stitchcuda.agent.implementing.implement import Parts
from stitchcuda.agent.implementing.marker import MarkerError
from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.agent.invention.asking import Asked, Stopping, agreed_files, keep_transcript
from stitchcuda.agent.journal import Run
from stitchcuda.agent.loop import Listener
from stitchcuda.agent.model.guarded import Guarded
from stitchcuda.agent.model.secrets import REMOVED, Redactor
from stitchcuda.agent.model.transcript import Transcript
from stitchcuda.agent.outcome import Candidate
from stitchcuda.agent.proposing import read_base
from stitchcuda.agent.roles import templates
from stitchcuda.agent.units import Unit
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.verdict import Verdict
from stitchcuda.gpu_validate.version import Version


class CannotImplement(Exception):
    """Stages are missing and cannot be written in this run. The text is for the user."""


class MakesBench(Protocol):
    """The bench of a program; `tell` is called with what is done on it."""

    def __call__(
        self, project: Project, contract: Contract, tell: Callable[[str], None], cancelled: Callable[[], bool]
    ) -> Bench: ...


@dataclass(frozen=True)
class Surroundings:
    """What the run gives. `listener` keeps the record."""

    run: Run
    listener: Listener
    stopping: Stopping
    clock: Callable[[], float]
    capabilities: Callable[[], Mapping[str, Any]] = dict


def stages_to_write(baseline: Version, bench: Bench, asked: Asked | None, *, may_run: bool) -> tuple[Stage, ...]:
    """The stages that a program lacks and asks for. Raises CannotImplement when they cannot be written, and what the analysis raises
    for a program that cannot be read."""
    try:
        stages = missing_stages(bench.tools.analyse(baseline))
    except MarkerError as error:
        raise CannotImplement(f"{baseline.folder / error.path}:{error.line}: {error.what}") from None
    if not stages:
        return ()
    first = stages[0]
    more = f", and {len(stages) - 1} more" if len(stages) > 1 else ""
    missing = f"{baseline.folder / first.path}:{first.marker.line}: `{first.name}` is declared and not defined{more}"
    if asked is None:
        raise CannotImplement(
            f"{missing}: --proposer llm has it written by a language model and checks it against `{first.marker.reference}`"
        )
    if not may_run:
        raise CannotImplement(f"{missing}: what is written has to be built and run, which is not allowed here")
    return stages


def write_stages(
    baseline: Version, stages: Sequence[Stage], contract: Contract, bench: Bench, asked: Asked, around: Surroundings
) -> Implemented:
    """Has the stages written. `asked` is filled with what was sent and spent. Raises TemplateError, CannotImplement, and what the listener
    raises."""
    asking = asked.asking
    ledger = asked.begin_ledger(around.clock)
    redactor = Redactor(known=asking.secrets)
    prompts = templates.load(asking.prompts)
    sources = read_base(baseline, bench.tools.analyse(baseline).sources)
    agreed = agreed_files(baseline.root, sources, asking)
    if stage := next((s for s in stages if s.file not in agreed), None):
        raise CannotImplement(
            f"{stage.file}: `{stage.name}` is to be written there, and the file may not be sent to a model"
        )
    asked.sent = agreed
    count = f"{len(agreed)} file{'s' if len(agreed) != 1 else ''}"
    said = f"{asking.model or 'the only model'} at {asking.endpoint} may be sent {count}: {', '.join(agreed[:8])}"
    around.listener.step("model", said, {"files": tuple(agreed)})

    def hides(text: bytes) -> bool:
        plain = text.decode(errors="replace")
        return REMOVED in plain or redactor.text(plain) != plain

    client = asking.make(
        ledger,
        cancelled=lambda: around.stopping() is not None,
        tell=lambda sentence: around.listener.step("endpoint", sentence, {}),
    )
    model = Guarded(client, redactor, files=agreed, transcript=Transcript(around.run.folder), ledger=ledger)
    capabilities = around.capabilities()

    def parts(
        judge: Callable[[Version, bytes], Verdict], judged: Callable[[Unit, Version, Verdict], Candidate]
    ) -> Parts:
        def metered(version: Version, definition: bytes) -> Verdict:
            with around.stopping.on_the_gpu():
                return judge(version, definition)

        return Parts(
            model=model,
            templates=prompts,
            analyse=bench.tools.analyse,
            judge=metered,
            step=around.listener.step,
            judged=judged,
            rounds=recorded.rounds,
            stopped=around.stopping,
            sendable=lambda texts: {path: text for path, text in texts.items() if path in agreed},
            hides=hides,
            begin_round=ledger.begin_round,
            capabilities=capabilities,
        )

    around.run.texts(sources)
    recorded = replaying.Recorded(asked.rounds_left, tuple(agreed), capabilities)
    replaying.write(around.run, recorded)
    around.stopping.watch(ledger)
    try:
        done = implement_all(baseline, contract, bench, around.listener, parts)
        replaying.write(around.run, replace(recorded, ended=True, stop=done.stop, reason=done.reason))
        return done
    except (MarkerError, CannotTry) as error:
        raise CannotImplement(str(error)) from None
    finally:
        around.stopping.unwatch()
        keep_transcript(asked, around.run)
