"""Missing stages written again from a run's record: the recorded replies and verdicts, without a network or a GPU. Every definition
must come out as it did."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stitchcuda.agent import journal
from stitchcuda.agent.implementing.bench import Bench
from stitchcuda.agent.implementing.first import implement_all
from stitchcuda.agent.implementing.implement import ID, Parts
from stitchcuda.agent.implementing.marker import MarkerError
from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.agent.invention.replaying import FROM_OUTSIDE, ROLES, Remade, Silent
from stitchcuda.agent.journal import JournalError, Record, Run
from stitchcuda.agent.model.guarded import Remembered
from stitchcuda.agent.model.transcript import Replaying
from stitchcuda.agent.outcome import Candidate, Stop
from stitchcuda.agent.roles import templates
from stitchcuda.agent.units import Unit
from stitchcuda.analysis.contract.jsonread import Reader, SchemaError, text
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import contract_from_json
from stitchcuda.gpu_validate.hub import BaselineMeasured
from stitchcuda.gpu_validate.runs import Cancelled
from stitchcuda.gpu_validate.tools import Tools
from stitchcuda.gpu_validate.verdict import Verdict
from stitchcuda.gpu_validate.verdict_json import verdict_from_json
from stitchcuda.gpu_validate.version import Version

NAME = "implementing.json"


@dataclass(frozen=True)
class Recorded:
    """What stands in the file. `stop` is why not all stages were written, None when they were, or when the run did not get so far;
    then `ended` is False."""

    rounds: int
    files: tuple[str, ...]
    capabilities: Mapping[str, Any]
    ended: bool = False
    stop: Stop | None = None
    reason: str = ""


def write(run: Run, recorded: Recorded) -> None:
    """Raises JournalError."""
    stop = recorded.stop.value if recorded.stop is not None else None
    value = {"rounds": recorded.rounds, "files": list(recorded.files), "capabilities": dict(recorded.capabilities)}
    run.write(NAME, {**value, "ended": recorded.ended, "stop": stop, "reason": recorded.reason})


def read(record: Record) -> Recorded | None:
    """None: no stage was missing. Raises JournalError."""
    try:
        value = journal.object_in(record, NAME)
        if value is None:
            return None
        reader = Reader(value, "", ("schema", "rounds", "files", "capabilities", "ended", "stop", "reason"))
        stop = reader.optional_text("stop")
        return Recorded(
            reader.integer("rounds", least=0),
            reader.items("files", text),
            dict(value.get("capabilities") or {}),
            value.get("ended") is True,
            None if stop is None else Stop(reader.choice("stop", [s.value for s in Stop])),
            reader.text("reason"),
        )
    except SchemaError as error:
        raise JournalError(f"{record.folder / NAME}: cannot be read ({error})") from None


def remake(record: Record, recorded: Recorded, tools: Tools, prompts: Path | None = None) -> Remade:
    """Raises JournalError when the record does not hold what it takes, what the analysis and TemplateError raise."""
    try:
        contract = contract_from_json(dict(record.contract or {"schema": 1}))
    except SchemaError as error:
        raise JournalError(f"{record.folder}: its contract cannot be read ({error})") from None
    replaying = Replaying(record.folder, exact=False, roles=ROLES)
    texts = journal.all_texts(record)
    bench = _Recorded(tools, Project(), contract, record=record, recorded=recorded)
    made: list[str] = []

    def stopped() -> Stop | None:
        """What came from outside came when no reply was left."""
        outside = not recorded.ended or recorded.stop in FROM_OUTSIDE
        return (recorded.stop or Stop.CANCELLED) if outside and not replaying.left else None

    def parts(
        judge: Callable[[Version, bytes], Verdict], judged: Callable[[Unit, Version, Verdict], Candidate]
    ) -> Parts:
        def heard(unit: Unit, version: Version, verdict: Verdict) -> Candidate:
            made.append(version.digest)
            return judged(unit, version, verdict)

        return Parts(
            model=Remembered(replaying),
            templates=templates.load(prompts),
            analyse=tools.analyse,
            judge=judge,
            step=lambda kind, sentence, data: None,
            judged=heard,
            rounds=recorded.rounds,
            stopped=stopped,
            sendable=lambda found: {p: t for p, t in found.items() if p in recorded.files},
            capabilities=recorded.capabilities,
            home=record.root.parent if baseline.root.is_file() else record.root,
        )

    with tempfile.TemporaryDirectory(prefix="stitchcuda-replay-") as folder:
        baseline = Version(journal.original_tree(record, texts, Path(folder)))
        try:
            done = implement_all(baseline, contract, bench, Silent(), parts)
        except MarkerError as error:
            raise JournalError(f"{record.folder}: {error}") from None
    own = {u.id for u in record.units if u.transform == ID}
    expected = [m.digest for m in record.made if set(m.units) <= own]
    same = next(
        (k for k, (a, b) in enumerate(zip(made, expected, strict=False)) if a != b), min(len(made), len(expected))
    )
    difference = ""
    if made != expected:
        difference = f"version {same + 1}: recorded {_at(expected, same)}, now {_at(made, same)}"
    elif recorded.ended and done.stop is not recorded.stop:
        difference = f"recorded stop: {_named(recorded.stop)}, now {_named(done.stop)}"
    elif replaying.left:
        difference = f"{replaying.left} of the recorded replies were not asked for"
    return Remade(same, difference, tuple(replaying.differences))


def _at(digests: Sequence[str], place: int) -> str:
    return digests[place] if place < len(digests) else "none"


def _named(stop: Stop | None) -> str:
    return stop.value if stop is not None else "none"


@dataclass(frozen=True)
class _Trial:
    bench: _Recorded

    def measure(self) -> BaselineMeasured:
        return BaselineMeasured(self.bench.recorded.reason if self.bench.recorded.stop is Stop.BASELINE else "")

    def judge(self, version: Version, definition: bytes) -> Verdict:
        """What the record says of the version. Raises Cancelled, as where the run was cut off."""
        value = journal.verdict(self.bench.record, version.digest)
        if value is None:
            raise Cancelled
        try:
            return verdict_from_json(value)
        except SchemaError as error:
            where = f"{self.bench.record.folder}/verdicts/{version.digest}.json"
            raise JournalError(f"{where}: cannot be read ({error})") from None


@dataclass(frozen=True, kw_only=True)
class _Recorded(Bench):
    """A bench on which nothing is built or run."""

    record: Record
    recorded: Recorded

    @contextmanager
    def trying(self, baseline: Version, stages: Sequence[Stage]) -> Iterator[Any]:
        yield _Trial(self)
