"""A run with a model made again from its record alone: the recorded replies and verdicts through the same machine, without a network
or a GPU. Every decision must come out as it did."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stitchcuda.agent import journal
from stitchcuda.agent.invention import record
from stitchcuda.agent.invention.handover import Invented, Start
from stitchcuda.agent.invention.invent import invent
from stitchcuda.agent.invention.machine import Halted
from stitchcuda.agent.invention.parts import Decision, Parts
from stitchcuda.agent.invention.record import Recorded
from stitchcuda.agent.journal import JournalError, Record
from stitchcuda.agent.model.guarded import Remembered
from stitchcuda.agent.model.transcript import Replaying
from stitchcuda.agent.outcome import Candidate, Stop
from stitchcuda.agent.proposing import Analyser, Proposed
from stitchcuda.agent.roles import architect, coder, repairer, templates
from stitchcuda.agent.transforms.transform import Transform
from stitchcuda.agent.versions import compose
from stitchcuda.analysis.contract.jsonread import SchemaError
from stitchcuda.analysis.contract.types import Contract, contract_from_json
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.hub import BaselineMeasured
from stitchcuda.gpu_validate.runs import Cancelled
from stitchcuda.gpu_validate.verdict import Verdict
from stitchcuda.gpu_validate.verdict_json import verdict_from_json
from stitchcuda.gpu_validate.version import Version

ROLES = (architect.ROLE, coder.ROLE, repairer.ROLE)
FROM_OUTSIDE = (Stop.CANCELLED, Stop.BUDGET_SPENT, Stop.GPU_SPENT)


@dataclass(frozen=True)
class Remade:
    """`decisions` is how many came out as recorded, one after the other; `difference` is the first that did not, "" when all did.
    `reworded` are requests that would be put in other words now: what is told of a trace is not kept, and prompts change."""

    decisions: int
    difference: str
    reworded: tuple[str, ...] = ()


def together(parts: Sequence[Remade]) -> Remade:
    """Several parts of one run, in their order."""
    different = next((k for k, part in enumerate(parts) if part.difference), len(parts) - 1)
    return Remade(
        sum(part.decisions for part in parts[: different + 1]),
        parts[different].difference,
        tuple(difference for part in parts for difference in part.reworded),
    )


def remake(record_: Record, analyser: Analyser, transforms: Sequence[Transform], prompts: Path | None = None) -> Remade:
    """Raises JournalError when the record does not hold what it takes, what the analysis and TemplateError raise."""
    value = journal.invention(record_)
    if value is None:
        raise JournalError(f"{record_.folder}: no model was asked in this run")
    try:
        recorded = record.from_json(value)
        contract = contract_from_json(dict(record_.contract or {"schema": 1}))
    except SchemaError as error:
        raise JournalError(f"{record_.folder / journal.INVENTION}: cannot be read ({error})") from None
    texts = journal.all_texts(record_)
    with tempfile.TemporaryDirectory(prefix="stitchcuda-replay-") as folder:
        tree = journal.original_tree(record_, texts, Path(folder))
        baseline = Version(tree)
        try:
            start = _start(record_, recorded, contract, baseline, analyser)
        except ValueError as error:
            raise JournalError(f"{record_.folder}: {error}") from None
        script = _Script(record_, recorded)
        replaying = Replaying(record_.folder, exact=False, roles=ROLES)
        invented = invent(
            start,
            Parts(
                model=Remembered(replaying),
                judge=script,
                measure=script.beside,
                analyser=analyser,
                transforms=transforms if recorded.rules else (),
                listener=Silent(),
                templates=templates.load(prompts),
                rounds=recorded.rounds,
                stopped=script.stopped,
                sendable=lambda found: {p: t for p, t in found.items() if p in recorded.files or p not in texts},
                hides=script.hides,
                taken=script.taken,
                decided=script.decided,
                capabilities=recorded.capabilities,
                home=record_.root.parent if tree.is_file() else record_.root,
            ),
        )
    return Remade(script.same, _difference(script, recorded, invented), tuple(replaying.differences))


def _start(record_: Record, recorded: Recorded, contract: Contract, baseline: Version, analyser: Analyser) -> Start:
    """Where the model started. Raises JournalError, UnitError."""
    units = record_.units[: recorded.units]
    ids = [u.id for u in units]
    base = journal.base_texts(record_)
    original = analyser.analyse(baseline)
    judged = []
    for made in record_.made:
        if set(made.units) <= set(ids):
            verdict = _verdict(record_, made.digest)
            if verdict is not None:
                judged.append(Candidate(made.units, baseline.with_texts(compose(base, units, made.units)), verdict))
    best = None
    if recorded.best is not None:
        best = next((c for c in judged if c.units == recorded.best), None)
        if best is None:
            raise JournalError(f"{record_.folder}: the verdict on what the model started from is missing")
    refusals = record_.refusals[: recorded.refused]
    proposed = Proposed(units, refusals, base, original, original)
    measured = BaselineMeasured("", recorded.measured)
    left_out = frozenset(recorded.left_out)
    return Start(baseline, contract, measured, proposed, best, refusals, left_out, tuple(judged))


def _verdict(record_: Record, name: str) -> Verdict | None:
    value = journal.verdict(record_, name)
    try:
        return None if value is None else verdict_from_json(value)
    except SchemaError as error:
        raise JournalError(f"{record_.folder}/verdicts/{name}.json: cannot be read ({error})") from None


@dataclass
class _Script:
    """What the record says from outside: verdicts, and when the run was stopped."""

    record: Record
    recorded: Recorded
    made: list[Decision] = field(default_factory=list)
    same: int = 0

    def decided(self, decision: Decision) -> None:
        expected = self._next()
        self.made.append(decision)
        if expected is not None and self.same == len(self.made) - 1 and _core(decision) == _core(expected):
            self.same += 1

    def _next(self) -> Decision | None:
        decisions = self.recorded.decisions
        return decisions[len(self.made)] if len(self.made) < len(decisions) else None

    def stopped(self) -> Stop | None:
        """What came from outside at this point; a record that goes no further was cut off."""
        expected = self._next()
        if expected is None:
            return Stop.CANCELLED
        event = expected.event
        outside = isinstance(event, Halted) and event.stop in FROM_OUTSIDE and "why" not in expected.detail
        return event.stop if outside and isinstance(event, Halted) else None

    def hides(self, text: bytes) -> bool:
        expected = self._next()
        return expected is not None and "hidden" in expected.detail

    def taken(self, path: str) -> bool:
        expected = self._next()
        return expected is not None and expected.detail.get("taken") == path

    def measure(self) -> BaselineMeasured:
        return BaselineMeasured("", self.recorded.measured)

    def judge(self, candidate: Version, declared: Declared) -> Verdict:
        verdict = _verdict(self.record, candidate.digest)
        if verdict is None:
            raise Cancelled
        return verdict

    def beside(self, new: Candidate, best: Candidate, declared: Declared) -> Verdict | None:
        return _verdict(self.record, f"{new.version.digest}-{best.version.digest}")


class Silent:
    """Nobody listens."""

    def step(self, kind: str, sentence: str, data: Mapping[str, object]) -> None:
        """Nobody listens."""

    def proposed(self, proposed: Proposed) -> None:
        """Nobody listens."""

    def judged(self, candidate: Candidate) -> None:
        """Nobody listens."""


def _core(decision: Decision) -> dict[str, Any]:
    """What must be the same: all but words for people."""
    value = record.decision_to_json(replace(decision, detail={}))
    value["version"] = decision.detail.get("version")
    return value


def _difference(script: _Script, recorded: Recorded, invented: Invented) -> str:
    """The first difference, in a sentence."""
    decisions = recorded.decisions
    if script.same < len(decisions):
        made = json.dumps(_core(script.made[script.same])) if script.same < len(script.made) else "nothing"
        return f"decision {script.same + 1}: recorded {json.dumps(_core(decisions[script.same]))}, now {made}"
    if recorded.stop is not None and invented.stop is not recorded.stop:
        return f"recorded stop: {recorded.stop.value}, now {invented.stop.value}"
    offered = tuple(c.version.digest for c in invented.offered)
    if recorded.stop is not None and offered != recorded.offered:
        return f"recorded versions {', '.join(recorded.offered) or 'none'}, now {', '.join(offered) or 'none'}"
    return ""
