"""Before the contract is fixed: the model is asked once for what the deterministic parser left open in the request (`roles/anchor.py`).

What it adds stands beside what the parser read, which never changes. Whatever goes wrong is told, and the run goes on with the
parser's contract.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stitchcuda.agent import journal
from stitchcuda.agent.invention.asking import Asked, Stopping, agreed_files, keep_transcript
from stitchcuda.agent.invention.replaying import Remade
from stitchcuda.agent.journal import JournalError, Record, Run
from stitchcuda.agent.model.guarded import Guarded, Remembered
from stitchcuda.agent.model.messages import Finish, Model, ModelError
from stitchcuda.agent.model.secrets import Redactor
from stitchcuda.agent.model.transcript import Replaying, Transcript, difference
from stitchcuda.agent.proposing import read_base
from stitchcuda.agent.roles import anchor, templates
from stitchcuda.agent.roles.answers import Malformed
from stitchcuda.agent.roles.templates import Templates
from stitchcuda.analysis.contract.intent.leftover import unread
from stitchcuda.analysis.contract.jsonread import Reader, SchemaError, text
from stitchcuda.analysis.contract.types import Contract, contract_from_json, contract_to_json
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.runs import Cancelled
from stitchcuda.gpu_validate.version import Version

NAME = "anchor.json"
_CANCELLED = "it was cancelled"
_SECRET = "the request holds a secret, so its words are not sent"


@dataclass(frozen=True)
class Anchored:
    """What came of it. `added` are the fields with their words; `problem` is why nothing was read, "" when the reply was. `rounds` is 0
    when no reply came."""

    contract: Contract
    added: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    rounds: int = 1


@dataclass(frozen=True)
class Situation:
    """The request, what the parser made of it, and the functions that a scope may name."""

    request: str
    before: Contract
    functions: tuple[str, ...]


def left_open(request: str, contract: Contract) -> tuple[str, ...]:
    """What the parser asks, and the words that no field came from; empty: nobody needs to be asked."""
    return (*(question.text for question in contract.questions), *unread(request, contract))


def with_anchor(
    baseline: Version,
    request: str,
    contract: Contract,
    asked: Asked,
    run: Run,
    step: Callable[[str, str, Mapping[str, Any]], None],
    stopping: Stopping,
    clock: Callable[[], float],
) -> Contract:
    """The contract with what the model read as well; `asked` is told what came of it. Raises TemplateError, JournalError, and what the
    analysis raises."""
    words = left_open(request, contract)
    if not words or stopping() is not None:
        return contract
    asking = asked.asking
    redactor = Redactor(known=asking.secrets)
    if redactor.text(request) != request:
        asked.anchored = _told(Anchored(contract, problem=_SECRET, rounds=0), step)
        return contract
    prompts = templates.load(asking.prompts)
    analysis = analyse(baseline)
    files = agreed_files(baseline.root, read_base(baseline, analysis.sources), asking)
    situation = Situation(request, contract, functions_of(analysis, files))
    ledger = asked.begin_ledger(clock)
    who = f"{asking.model or 'the only model'} at {asking.endpoint}"
    limit = asking.budget.filled().rounds
    said = f"asking {who} what the request says beside what was read, round 1 of {limit}: {_shown(words)}"
    step("anchor", said, {"open": words})
    stopping.watch(ledger)
    client = asking.make(
        ledger,
        cancelled=lambda: stopping() is not None,
        tell=lambda sentence: step("endpoint", sentence, {}),
    )
    model = Guarded(client, redactor, files=(), transcript=Transcript(run.folder), ledger=ledger)
    _write(run, situation, None)
    try:
        ledger.begin_round()
        found = _read(model, situation, prompts)
    except ModelError as error:  # a budget that is spent is one, too
        found = Anchored(contract, problem=str(error), rounds=0)
    except Cancelled:
        found = Anchored(contract, problem=_CANCELLED, rounds=0)
    finally:
        stopping.unwatch()
        asked.before = ledger.spent
        keep_transcript(asked, run)
    asked.anchored = _told(found, step)
    _write(run, situation, found)
    return found.contract


def functions_of(analysis: Analysis, files: Collection[str]) -> tuple[str, ...]:
    """Names of the functions that are defined in these files, as a scope may say them."""
    functions = analysis.program.functions.values()
    return tuple(sorted({f.qualified for f in functions if f.body is not None and f.path in files}))


def _read(model: Model, situation: Situation, prompts: Templates) -> Anchored:
    """Raises ModelError, Cancelled."""
    request, before, functions = situation.request, situation.before, situation.functions
    reply = model.ask(anchor.ask(request, before, prompts, functions))
    if reply.finish is Finish.REFUSED:
        return Anchored(before, problem="it refuses to answer")
    found = anchor.read(reply, request, before, functions)
    if isinstance(found, Malformed):
        return Anchored(before, problem=f"its reply cannot be used: {found.reason}")
    return Anchored(found.contract, tuple((e.field, e.text) for e in found.added))


def _told(found: Anchored, step: Callable[[str, str, Mapping[str, Any]], None]) -> Anchored:
    if found.problem:
        sentence = f"the request stays as it was read without the model: {found.problem}"
    elif found.added:
        sentence = f"the model read {', '.join(f'{field} from {words!r}' for field, words in found.added)}"
    else:
        sentence = "the model read nothing more in the request"
    step("anchored", sentence, {"fields": [field for field, _ in found.added]})
    return found


def _shown(words: Sequence[str]) -> str:
    return "; ".join(words[:3])[:200] + ("; ..." if len(words) > 3 else "")


# -------------------------------------------------------------------------------------------------------------- record


@dataclass(frozen=True)
class Recorded:
    """What stands in the file. `problem` is None when the run did not get so far."""

    situation: Situation
    problem: str | None


def _write(run: Run, situation: Situation, found: Anchored | None) -> None:
    run.write(
        NAME,
        {
            "request": situation.request,
            "before": contract_to_json(situation.before),
            "functions": list(situation.functions),
            "added": [] if found is None else [{"field": field, "text": words} for field, words in found.added],
            "problem": None if found is None else found.problem,
        },
    )


def read(record: Record) -> Recorded | None:
    """None: nobody was asked about the request. Raises JournalError."""
    value = journal.object_in(record, NAME)
    if value is None:
        return None
    try:
        reader = Reader(value, "", ("schema", "request", "before", "functions", "added", "problem"))
        before = reader.record("before", lambda item, at: contract_from_json(item))
        situation = Situation(reader.text("request"), before, reader.items("functions", text))
        return Recorded(situation, reader.optional_text("problem"))
    except SchemaError as error:
        raise JournalError(f"{record.folder / NAME}: cannot be read ({error})") from None


def remake(record: Record, recorded: Recorded, prompts: Path | None = None) -> Remade:
    """The contract once more, from the recorded reply alone: it must be that of the run. Raises JournalError, TemplateError."""
    replaying = Replaying(record.folder, exact=False, roles=(anchor.ROLE,))
    before = recorded.situation.before
    if not replaying.left:  # cut off, or stopped before anything was sent
        found = Anchored(before, problem=recorded.problem or "")
    else:
        try:
            found = _read(Remembered(replaying), recorded.situation, templates.load(prompts))
        except ModelError as error:
            found = Anchored(before, problem=str(error))
    wrong = _differs(record, recorded, found)
    return Remade(0 if wrong else 1, wrong, tuple(replaying.differences))


def _differs(record: Record, recorded: Recorded, found: Anchored) -> str:
    if recorded.problem is None:
        return ""
    if found.problem != recorded.problem:
        return f"the request: recorded {recorded.problem or 'as read'!r}, now {found.problem or 'as read'!r}"
    now = contract_to_json(found.contract)
    kept = dict(record.contract or {})
    return "" if now == kept else f"the contract: {difference(kept, now)}"
