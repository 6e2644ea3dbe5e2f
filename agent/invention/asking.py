"""A run's model: who is asked, what it may cost, what it may be sent; and how its part of the loop is put together."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stitchcuda.agent import loop
from stitchcuda.agent.invention import record
from stitchcuda.agent.invention.handover import Invented, Start
from stitchcuda.agent.invention.invent import invent
from stitchcuda.agent.invention.parts import Measures, Parts
from stitchcuda.agent.journal import Run, text_digest
from stitchcuda.agent.loop import Judge, Listener
from stitchcuda.agent.model.accounting import Budget, Ledger, Prices, Spent
from stitchcuda.agent.model.guarded import Guarded
from stitchcuda.agent.model.messages import Model
from stitchcuda.agent.model.secrets import REMOVED, Redactor
from stitchcuda.agent.model.sending import NeverSend, sendable
from stitchcuda.agent.model.transcript import NAME as TRANSCRIPT
from stitchcuda.agent.model.transcript import Transcript
from stitchcuda.agent.outcome import Stop
from stitchcuda.agent.proposing import read_base
from stitchcuda.agent.roles import templates
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.hub import BaselineMeasured
from stitchcuda.gpu_validate.verdict import Verdict
from stitchcuda.gpu_validate.version import Version

if TYPE_CHECKING:
    from stitchcuda.agent.invention.anchoring import Anchored


class MakesModel(Protocol):
    """What asks the endpoint. `cancelled` ends a request within a second; `tell` hears what is asked again."""

    def __call__(self, ledger: Ledger, *, cancelled: Callable[[], bool], tell: Callable[[str], None]) -> Model: ...


@dataclass(frozen=True)
class Asking:
    """`endpoint` and `model` name who is asked, for people and for the record; `secrets` are taken out of all that is sent or
    kept, beside what speaks for itself. `prompts` is the user's own folder of templates. `files` are those that the user agreed
    to send; None: all that may be sent."""

    make: MakesModel
    endpoint: str
    model: str
    budget: Budget = field(default_factory=Budget)
    prices: Prices = field(default_factory=Prices)
    never_send: Sequence[NeverSend] = ()
    secrets: Sequence[str] = ()
    prompts: Path | None = None
    files: Collection[str] | None = None


class Stopping:
    """Why to stop now, for all parts of a run: told to, the time is spent, or a budget of the model is."""

    def __init__(self, cancelled: Callable[[], bool], seconds: float | None, clock: Callable[[], float]) -> None:
        self._cancelled, self._clock = cancelled, clock
        self._end = None if seconds is None else clock() + seconds
        self._ledger: Ledger | None = None
        self._judging: float | None = None

    def __call__(self) -> Stop | None:
        if self._cancelled():
            return Stop.CANCELLED
        if self._end is not None and self._clock() > self._end:
            return Stop.BUDGET_SPENT
        if self._ledger is None:
            return None
        if self._ledger.exhausted() == "time":
            return Stop.BUDGET_SPENT
        most, judging = self._ledger.budget.filled().gpu_seconds, self._judging
        spent = self._ledger.spent.gpu_seconds + (self._clock() - judging if judging is not None else 0.0)
        return Stop.GPU_SPENT if most is not None and spent >= most else None

    def watch(self, ledger: Ledger) -> None:
        """From now on its budgets count."""
        self._ledger = ledger

    def unwatch(self) -> None:
        self._ledger = None

    @contextmanager
    def on_the_gpu(self) -> Iterator[None]:
        """The time within counts as time of the GPU."""
        self._judging = self._clock()
        try:
            yield
        finally:
            if self._ledger is not None:
                self._ledger.count_gpu(self._clock() - self._judging)
            self._judging = None


@dataclass(frozen=True)
class _Metered:
    """The judge, its time counted."""

    judge_: Judge
    stopping: Stopping

    def measure(self) -> BaselineMeasured:
        return self.judge_.measure()

    def judge(self, candidate: Version, declared: Declared) -> Verdict:
        with self.stopping.on_the_gpu():
            return self.judge_.judge(candidate, declared)


@dataclass(frozen=True)
class Surroundings:
    """What the run gives beside the parts of the loop. `cancelled` is the user's word alone: what it cuts short is not waited
    for."""

    run: Run
    listener: Listener
    stopping: Stopping
    measure: Measures
    verdict: Callable[[Verdict], Mapping[str, Any]]
    clock: Callable[[], float]
    capabilities: Callable[[], Mapping[str, Any]] = dict


@dataclass
class Asked:
    """What the model's parts spent, once they are over; "" for the digest as long as nothing was asked. `anchored` is what came of
    asking about the request; None: nothing was left open."""

    asking: Asking
    ledger: Ledger | None = None
    transcript: str = ""
    sent: list[str] = field(default_factory=list)
    anchored: Anchored | None = None
    before: Spent = field(default_factory=Spent)  # by parts that are over

    def begin_ledger(self, clock: Callable[[], float]) -> Ledger:
        """For the next part: what the parts before it spent counts, and not the time between."""
        self.ledger = Ledger(self.asking.budget, self.asking.prices, clock)
        self.ledger.add(self.before)
        return self.ledger

    @property
    def rounds_left(self) -> int:
        """For the part at hand, when it begins."""
        return max((self.asking.budget.filled().rounds or 0) - self.before.rounds, 0)


def with_model(parts: loop.Parts, asking: Asking, around: Surroundings, *, rules: bool, asked: Asked) -> loop.Parts:
    """The loop's parts with the model's. `rules`: whether they propose as well. Raises TemplateError."""
    prompts = templates.load(asking.prompts)
    transforms = parts.transforms if rules else ()

    def part(start: Start) -> Invented:
        return _invent(start, parts, asking, around, prompts, rules=rules, asked=asked)

    return replace(parts, transforms=transforms, invent=part)


def _invent(
    start: Start,
    parts: loop.Parts,
    asking: Asking,
    around: Surroundings,
    prompts: templates.Templates,
    *,
    rules: bool,
    asked: Asked,
) -> Invented:
    ledger = asked.begin_ledger(around.clock)
    redactor = Redactor(known=asking.secrets)
    rounds = asked.rounds_left
    root, sources = start.baseline.root, read_base(start.baseline, start.proposed.original.sources)
    agreed = agreed_files(root, sources, asking)
    keeper = record.Recorder(around.run, rounds, rules)
    capabilities = around.capabilities()
    keeper.begin(start, agreed, capabilities)
    around.run.texts(sources)
    asked.sent = agreed
    named = asking.model or "the only model"
    around.listener.step(
        "model", f"{named} at {asking.endpoint} may be sent {_named(agreed)}", {"files": tuple(agreed)}
    )

    def may_be_sent(texts: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Of the program only what was agreed to; what the model made itself is known to it."""
        kept = _sendable(root, texts, asking)
        agreed.extend(path for path in kept if path not in agreed and path not in sources)
        return {path: text for path, text in kept.items() if path in agreed}

    def hides(text: bytes) -> bool:
        plain = text.decode(errors="replace")
        return REMOVED in plain or redactor.text(plain) != plain

    def measure(new: Any, best: Any, declared: Declared) -> Verdict | None:
        with around.stopping.on_the_gpu():
            verdict = around.measure(new, best, declared)
        if verdict is not None:
            around.run.verdict(f"{new.version.digest}-{best.version.digest}", around.verdict(verdict))
        return verdict

    around.stopping.watch(ledger)
    client = asking.make(
        ledger,
        cancelled=lambda: around.stopping() is not None,
        tell=lambda sentence: around.listener.step("endpoint", sentence, {}),
    )
    model = Guarded(client, redactor, files=agreed, transcript=Transcript(around.run.folder), ledger=ledger)
    inner = Parts(
        model=model,
        judge=_Metered(parts.judge, around.stopping),
        measure=measure,
        analyser=parts.analyser,
        transforms=parts.transforms if rules else (),
        listener=around.listener,
        templates=prompts,
        rounds=rounds,
        stopped=around.stopping,
        sendable=may_be_sent,
        hides=hides,
        taken=lambda path: os.path.lexists(start.baseline.folder / path),
        begin_round=ledger.begin_round,
        decided=keeper.decided,
        capabilities=capabilities,
        spent=lambda: spent_in_words(ledger.spent),
    )
    try:
        invented = invent(start, inner)
    finally:
        around.stopping.unwatch()
        keep_transcript(asked, around.run)
    keeper.end(invented)
    return invented


def keep_transcript(asked: Asked, run: Run) -> None:
    """The digest of the record of requests and replies, as far as there is one."""
    transcript = run.folder / TRANSCRIPT
    if transcript.exists():
        asked.transcript = text_digest(transcript.read_bytes())


def agreed_files(root: Path, sources: Mapping[str, bytes], asking: Asking) -> list[str]:
    """Of the program's files those that may be sent."""
    return sorted(p for p in _sendable(root, sources, asking) if asking.files is None or p in asking.files)


def _sendable(root: Path, texts: Mapping[str, bytes], asking: Asking) -> Mapping[str, bytes]:
    return sendable(root, texts, asking.never_send).texts


def spent_in_words(spent: Spent) -> str:
    """Tokens, and money where there are prices."""
    if not spent.requests:
        return ""
    money = f", {spent.money:.4g} spent" if spent.money else ""
    return f"{spent.tokens:,} tokens{money}"


def _named(files: Sequence[str]) -> str:
    shown = ", ".join(files[:8])
    return f"{len(files)} file{'s' if len(files) != 1 else ''}: {shown}{', ...' if len(files) > 8 else ''}"
