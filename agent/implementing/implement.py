"""One missing stage: the coder writes its definition, the judge decides, the repairer is asked until it is right or enough is enough.

What reaches outside is given: the model, the judge, who listens, when to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stitchcuda.agent import versions
from stitchcuda.agent.implementing import forms, placing
from stitchcuda.agent.implementing.asking import plan_for
from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.agent.invention.anchored import Unplaced, place
from stitchcuda.agent.invention.confinement import Violation, violations
from stitchcuda.agent.invention.judging import at_home
from stitchcuda.agent.model.messages import Ask, BudgetSpent, Finish, Model, ModelError, Reply
from stitchcuda.agent.outcome import STOP_OF_BUDGET, Candidate, Stop
from stitchcuda.agent.roles import coder, conversation, repairer
from stitchcuda.agent.roles.answers import Malformed, Plan
from stitchcuda.agent.roles.situation import Brief, Scope
from stitchcuda.agent.roles.templates import Templates
from stitchcuda.agent.units import Obligation, Unit
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.gpu_validate.primary import primary_of
from stitchcuda.gpu_validate.runs import Cancelled
from stitchcuda.gpu_validate.verdict import GateState, Verdict, VerdictState
from stitchcuda.gpu_validate.version import Version

ID = "implement"
DECLARED = Declared((ID,), device=May.ANY)
UNREADABLE = 3  # replies in a row that hold no definition, after which nobody is asked any more
REJECTED = 6  # definitions that the judge rejects
_REPEATED = "This definition was given before and rejected. Write it otherwise."
_ONLY = (
    "Only the definition of `{name}` in {file} may change, with device code of its own right above it. Give one edit of kind "
    '"function" for `{name}`.'
)
_HIDDEN = "Your edit writes text that was removed before it was sent to you (a secret). Leave it out."


@dataclass(frozen=True)
class Parts:
    """`judge` compares a version that defines the stage with the reference version; it is given the definition too, and raises
    Cancelled. `judged` hears of each and gives the unit its place. `sendable`, `hides` and `begin_round` as in `invention.parts.Parts`."""

    model: Model
    templates: Templates
    analyse: Callable[[Version], Analysis]
    judge: Callable[[Version, bytes], Verdict]
    step: Callable[[str, str, Mapping[str, object]], None]
    judged: Callable[[Unit, Version, Verdict], Candidate]
    rounds: int
    stopped: Callable[[], Stop | None] = lambda: None
    sendable: Callable[[Mapping[str, bytes]], Mapping[str, bytes]] = dict
    hides: Callable[[bytes], bool] = lambda text: False
    begin_round: Callable[[], None] = lambda: None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    home: Path | None = None  # the program's folder, which is told to nobody; None: the baseline's


@dataclass(frozen=True)
class Written:
    """A version that defines the stage and was accepted, or one that this machine cannot check."""

    candidate: Candidate


@dataclass(frozen=True)
class Unwritten:
    """No definition was accepted. `reason` is for the user."""

    stop: Stop
    reason: str


def implement(stage: Stage, baseline: Version, contract: Contract, parts: Parts) -> Written | Unwritten:
    """Has the stage written. `baseline` is the program without it. Raises what the analysis and the listener raise."""
    return _Run(stage, baseline, contract, parts).go()


@dataclass(frozen=True)
class _Draft:
    """A definition, what the model sees of its version, and what the judge said of it."""

    definition: bytes
    texts: Mapping[str, bytes]
    analysis: Analysis
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class _Unusable:
    """A reply without a definition to try. `reason` is for people, `feedback` for the model; `outside`: it went beyond what may be
    changed."""

    reason: str
    feedback: str
    outside: bool = False


def _beyond(wrong: Sequence[Violation]) -> _Unusable:
    feedback = "\n".join(f"{v.path}:{v.line}: {v.kind}: {v.what}" for v in wrong)
    return _Unusable(f"it goes beyond what may be changed: {wrong[0].what}", feedback, outside=True)


class _Enough(Exception):
    def __init__(self, stop: Stop, reason: str = "") -> None:
        super().__init__(reason)
        self.stop = stop


class _Run:
    def __init__(self, stage: Stage, baseline: Version, contract: Contract, parts: Parts) -> None:
        self._stage, self._baseline, self._parts = stage, baseline, parts
        self._contract = replace(contract, tolerance=stage.marker.tolerance or contract.tolerance)
        self._before = parts.analyse(baseline)
        self._text = baseline.read(stage.file)
        self._scope = Scope((stage.file,), (stage.name,))
        self._empty = self._draft(placing.stub(stage))
        self._plan: Plan = plan_for(stage, self._empty.texts, self._contract.tolerance)
        self._seen: set[bytes] = set()
        self._why = ""

    def go(self) -> Written | Unwritten:
        at, unreadable, rejected, outside = self._empty, 0, 0, False
        ask: Ask | None = None
        try:
            for number in range(1, self._parts.rounds + 1):
                self._check()
                self._parts.begin_round()
                asked = ask or self._ask(at)
                self._say("ask", f"asking the model for `{self._stage.name}`, round {number} of {self._parts.rounds}")
                brief = self._brief(at)
                asked, reply = conversation.reply_to(asked, self._parts.model, brief)
                if reply.finish is Finish.REFUSED:
                    raise _Enough(Stop.REFUSED)
                found = self._definition(reply, at, brief)
                if isinstance(found, _Unusable):
                    unreadable += 1
                    if found.outside and outside:
                        raise _Enough(Stop.OUT_OF_SCOPE)
                    outside = outside or found.outside
                    self._say("unusable", f"the model's reply cannot be used: {found.reason}")
                    if unreadable >= UNREADABLE:
                        raise _Enough(Stop.UNREADABLE)
                    ask = conversation.again(asked, reply, found.feedback)
                    continue
                ask, unreadable = None, 0
                done = self._judged(found)
                if isinstance(done, Written):
                    return done
                at, rejected = done, rejected + 1
                if rejected >= REJECTED:
                    raise _Enough(Stop.GAVE_UP)
            raise _Enough(Stop.ROUNDS_SPENT)
        except _Enough as enough:
            return self._ended(enough.stop, str(enough))
        except Cancelled:
            return self._ended(self._parts.stopped() or Stop.CANCELLED, "")
        except BudgetSpent as error:
            return self._ended(STOP_OF_BUDGET.get(error.what, Stop.BUDGET_SPENT), str(error))
        except ModelError as error:
            return self._ended(Stop.NO_MODEL, str(error))

    def _ended(self, stop: Stop, why: str) -> Unwritten:
        last = f"; the last definition was rejected: {self._why}" if self._why else ""
        return Unwritten(stop, f"`{self._stage.name}` was not written: {why or stop.value}{last}")

    def _check(self) -> None:
        if (stop := self._parts.stopped()) is not None:
            raise _Enough(stop)

    def _say(self, kind: str, sentence: str) -> None:
        self._parts.step(kind, sentence, {"stage": self._stage.function.qualified})

    # ----------------------------------------------------------------------------------------------------------- asking

    def _ask(self, at: _Draft) -> Ask:
        brief = self._brief(at)
        if at.verdict is None or at.verdict.primary is None:
            return coder.ask(brief, self._parts.templates, self._plan, (self._stage.name,))
        verdict = at_home(at.verdict, self._parts.home or self._baseline.folder)
        return repairer.ask(brief, self._parts.templates, self._plan, verdict, (self._stage.name,))

    def _brief(self, at: _Draft) -> Brief:
        return Brief(
            contract=self._contract,
            texts=at.texts,
            analysis=at.analysis,
            scope=self._scope,
            capabilities=self._parts.capabilities,
            build=at.verdict.gate("G2") if at.verdict is not None else None,
        )

    def _definition(self, reply: Reply, at: _Draft, brief: Brief) -> bytes | _Unusable:
        """The definition of a reply, or what is wrong with it."""
        if reply.finish is Finish.TOOLS:
            return _Unusable("it only calls tools", conversation.NO_MORE)
        found = (coder if at.verdict is None or at.verdict.primary is None else repairer).read(reply, brief)
        if isinstance(found, Malformed):
            return _Unusable(found.reason, found.feedback)
        placed = place(found.edits, at.texts)
        if isinstance(placed, Unplaced):
            return _Unusable(placed.reason, placed.feedback)
        if any(self._parts.hides(edit.text) for edit in placed):
            return _Unusable("it writes text that was not sent", _HIDDEN)
        only = _ONLY.format(name=self._stage.name, file=self._stage.file)
        if {edit.path for edit in placed} != {self._stage.file}:
            return _Unusable("it changes another file", only, outside=True)
        if wrong := violations(at.texts, placed, self._scope, at.analysis):
            return _beyond(wrong)
        after = versions.edited(at.texts, placed)[self._stage.file]
        definition = placing.definition_in(self._stage, self._text, after)
        if definition is None:
            return _Unusable("it changes more than the definition", only, outside=True)
        definition = forms.last_of_each(definition)
        # What an earlier answer brought in must not make room for what this one brings.
        original = {**at.texts, self._stage.file: self._text}
        if wrong := violations(
            original, (placing.added(self._stage, self._text, definition),), self._scope, self._before
        ):
            return _beyond(wrong)
        if wrong_form := forms.wrong_form(self._stage, definition, self._before):
            return _Unusable(wrong_form.splitlines()[0], wrong_form)
        if definition in self._seen:
            return _Unusable("it gives a definition again that was rejected", _REPEATED)
        self._seen.add(definition)
        return definition

    # ---------------------------------------------------------------------------------------------------------- judging

    def _draft(self, definition: bytes, verdict: Verdict | None = None) -> _Draft:
        """The version as the model sees it: the marker still asks."""
        text = placing.with_definition(self._stage, self._text, definition)
        version = self._baseline.with_texts({self._stage.file: text})
        analysis = self._parts.analyse(version)
        texts = {path: version.read(path) for path in sorted({*analysis.sources, *version.texts})}
        return _Draft(definition, self._parts.sendable(texts), analysis, verdict)

    def _judged(self, definition: bytes) -> Written | _Draft:
        unit = self._unit(definition)
        texts = {path: self._baseline.read(path) for path in dict.fromkeys(e.path for e in unit.edits)}
        version = self._baseline.with_texts(versions.edited(texts, unit.edits))
        self._say("judge", f"validating `{self._stage.name}` against `{self._stage.marker.reference}`")
        verdict = self._parts.judge(version, definition)
        if verdict.primary is None and verdict.state is not VerdictState.ACCEPTED:
            verdict = replace(verdict, primary=primary_of(verdict.gates))
        candidate = self._parts.judged(unit, version, verdict)
        self._say("judged", f"{verdict.state.value}: `{self._stage.name}`")
        if verdict.state is VerdictState.ACCEPTED or is_preview(verdict):
            return Written(candidate)
        self._why = verdict.state.value
        if verdict.primary is not None:
            self._why = f"{verdict.primary.issue}; {verdict.primary.fix}"
        return self._draft(definition, verdict)

    def _unit(self, definition: bytes) -> Unit:
        stage = self._stage
        edits = placing.edits_of(stage, self._text, self._baseline.read(stage.path), definition)
        return Unit(
            id="",
            parents=(),
            transform=ID,
            why=f"`{stage.name}` is written: {stage.marker.intent or 'what its comment asks for'}",
            edits=edits,
            declared=DECLARED,
            obligations=(
                Obligation("it reads and writes what its declaration allows", "the effects of the definition")
                if stage.is_kernel
                else Obligation(
                    "no caller that relies on its declaration alone meets a hazard",
                    "the hazard rules on the strictest such caller",
                ),
                Obligation(
                    f"its results are those of `{stage.marker.reference}`", "the validation hub, by running both"
                ),
            ),
        )


def is_preview(verdict: Verdict) -> bool:
    """Whether nothing speaks against a version that this machine could not run."""
    states = {g.gate: g.state for g in verdict.gates}
    static = all(states.get(name) in (GateState.PASSED, GateState.PROVED) for name in ("G0", "G1"))
    built = states.get("G2") in (GateState.PASSED, GateState.PROVED, GateState.UNTESTED)
    return verdict.state is VerdictState.UNPROVEN and static and built and states.get("G3") is GateState.UNTESTED
