"""A language model proposes, the judge decides: the driver of the state machine (`machine.py`).

What reaches outside is given: the model, the judge, the clock behind `stopped`, who listens. So a run is made again from its record
with none of them. A model's change is one unit on top of the best version so far; the rules are tried again on top of it; and it
stays only when it is faster than the best so far by more than chance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from stitchcuda.agent import versions
from stitchcuda.agent.invention import machine
from stitchcuda.agent.invention.anchored import Unplaced, place
from stitchcuda.agent.invention.confinement import MOST_TOLD, Violation, violations
from stitchcuda.agent.invention.edits_between import edits_between
from stitchcuda.agent.invention.handover import Invented, Start
from stitchcuda.agent.invention.judging import Compared, at_home, compared, equal_results, shown_by
from stitchcuda.agent.invention.machine import Event, Halted, Judged, Phase, Planned, Refused, Shown, State, Written
from stitchcuda.agent.invention.on_top import Rules, changes_of, on_top
from stitchcuda.agent.invention.parts import Decision, Parts
from stitchcuda.agent.loop import Search
from stitchcuda.agent.model.messages import Ask, BudgetSpent, Finish, ModelError, Reply
from stitchcuda.agent.outcome import STOP_OF_BUDGET, Candidate, Stop
from stitchcuda.agent.proposing import Proposed, declared_of, read_base, serves
from stitchcuda.agent.roles import architect, coder, conversation, repairer
from stitchcuda.agent.roles.answers import Edits, Fix, Malformed, Plan
from stitchcuda.agent.roles.situation import Attempt, Brief, Scope
from stitchcuda.agent.transforms.transform import Refusal
from stitchcuda.agent.units import Obligation, TextEdit, Unit
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.gpu_validate.primary import primary_of
from stitchcuda.gpu_validate.runs import Cancelled
from stitchcuda.gpu_validate.verdict import Verdict, VerdictState
from stitchcuda.gpu_validate.version import Version

ID = "model"
# Launches are composed otherwise in groups that the proof pairs; nothing else may be launched, and nothing more copied.
DECLARED = Declared((ID,), May.ANY, May.FEWER, May.ANY, May.SAME, device=May.ANY)
_REPEATED = (
    "This was proposed before, and came to an end then. Propose something else, or say that nothing is worth trying."
)
_HIDDEN = (
    "Your edit of {path} replaces or writes text that was removed before it was sent to you (a secret). Leave these lines as "
    "they are: anchor your edits beside them, and do not rewrite a function that holds them."
)


def invent(start: Start, parts: Parts) -> Invented:
    """Asks the model until it, the judge, a budget or the user says that it is enough. Raises what the analysis and the listener
    raise."""
    run = _Run(start, parts)
    state = machine.begin(parts.rounds, {c.version.digest for c in start.judged} | {run.at.version.digest})
    while state.phase is not Phase.STOP:
        event, detail = run.step(state)
        before, state = state, machine.advance(state, event)
        parts.decided(Decision(state.round, before.phase, event, state.phase, detail))
        run.after(before, state)
    assert state.stop is not None
    return Invented(
        run.units, run.base, tuple(run.judged), tuple(run.offered), state.stop, state.round, run.problem, run.refusals
    )


@dataclass(frozen=True)
class _Standing:
    """A version, and what of it the model sees."""

    units: tuple[str, ...]
    version: Version
    texts: Mapping[str, bytes]
    analysis: Analysis
    verdict: Verdict | None = None


_Step = tuple[Event, dict[str, Any]]


class _Run:
    """What changes while the model is asked; what is done next is the machine's to say."""

    def __init__(self, start: Start, parts: Parts) -> None:
        self._start, self._parts = start, parts
        self.units = start.proposed.units
        self.base = dict(start.proposed.base)
        self.judged: list[Candidate] = []
        self.offered: list[Candidate] = []
        self.problem = ""
        self.refusals: tuple[Refusal, ...] = ()
        self._known = changes_of(self.base, self.units, start.left_out)
        self.best = start.best
        self.at = self._standing(start.best.units if start.best else (), start.best.verdict if start.best else None)
        self._original: _Standing | None = None
        self._new: Version | None = None  # to be judged
        self._draft: _Standing | None = None  # judged, and to be repaired
        self._plan = Plan("")
        self._history: list[Attempt] = []
        self._last: tuple[Ask, Reply] | None = None
        self._feedback = ""
        self._whole: list[str] = []

    # ------------------------------------------------------------------------------------------------------------ steps

    def step(self, state: State) -> _Step:
        """Does what the state asks for, and says what came of it."""
        if (stop := self._parts.stopped()) is not None:
            return Halted(stop), {}
        try:
            if state.phase is Phase.JUDGE:
                return self._judge()
            self._parts.begin_round()
            self._say(state)
            return self._asked(state)
        except Cancelled:
            return Halted(self._parts.stopped() or Stop.CANCELLED), {}
        except BudgetSpent as error:
            return Halted(STOP_OF_BUDGET.get(error.what, Stop.BUDGET_SPENT)), {"why": str(error)}
        except ModelError as error:
            self.problem = str(error)
            return Halted(Stop.NO_MODEL), {"why": self.problem}

    def after(self, before: State, state: State) -> None:
        """What a plan leaves behind when the next one is made."""
        if state.phase is not before.phase and state.phase in (*machine.PLANNING, Phase.STOP):
            self._draft = None
            self._whole = []
        if state.phase is Phase.REPLAN and before.phase in machine.WRITING:
            self._history.append(Attempt(self._plan.summary, "given up", self._feedback))

    def _say(self, state: State) -> None:
        again = " again" if state.retry else ""
        spent = self._parts.spent()
        sentence = f"asking the model ({state.phase.value}{again}), round {state.round + 1} of {state.limit}"
        sentence += f", so far {spent}" if spent else ""
        self._parts.listener.step("ask", sentence, {"phase": state.phase.value, "round": state.round + 1})

    def _asked(self, state: State) -> _Step:
        standing = self._draft if state.phase in machine.REPAIRING and self._draft else self.at
        brief = self._brief(standing)
        if self._last is not None and (state.retry or (state.whole and not self._whole)):
            ask = conversation.again(*self._last, self._feedback)
        else:
            ask = self._ask(state, brief)
        ask, reply = conversation.reply_to(ask, self._parts.model, brief)
        self._last = (ask, reply)
        if reply.finish is Finish.REFUSED:
            self._feedback = "it refuses to answer"
            return Refused(), {"why": self._feedback}
        if reply.finish is Finish.TOOLS:
            return self._unusable("it only calls tools", conversation.NO_MORE)
        if state.phase in machine.PLANNING:
            return self._planned(architect.read(reply, brief))
        found = (repairer if state.phase in machine.REPAIRING else coder).read(reply, brief)
        return self._written(found, standing)

    def _ask(self, state: State, brief: Brief) -> Ask:
        templates, whole = self._parts.templates, tuple(self._whole) if state.whole else ()
        if state.phase in machine.PLANNING:
            return architect.ask(brief, templates)
        if state.phase is Phase.CODE or self._draft is None or self._draft.verdict is None:
            return coder.ask(brief, templates, self._plan, whole)
        verdict = at_home(self._draft.verdict, self._parts.home or self._start.baseline.folder)
        return repairer.ask(brief, templates, self._plan, verdict, whole)

    def _planned(self, plan: Plan | Malformed) -> _Step:
        if isinstance(plan, Malformed):
            return self._unusable(plan.reason, plan.feedback)
        self._feedback = _REPEATED
        self._plan = plan
        said = "\n".join((plan.summary, *plan.steps, "", *plan.targets))
        self._tell("plan", f"plan: {plan.summary}" if not plan.done else f"no further plan: {plan.summary}")
        return Planned(_named("plan", said), plan.done), {"summary": plan.summary}

    def _written(self, found: Edits | Fix | Malformed, standing: _Standing) -> _Step:
        if isinstance(found, Malformed):
            return self._unusable(found.reason, found.feedback)
        placed = place(found.edits, standing.texts)
        if isinstance(placed, Unplaced):
            self._feedback = placed.feedback
            self._whole += [f for f in placed.functions if f not in self._whole]
            return machine.Unplaced(), {"why": placed.reason}
        made = (e.path for e in placed if e.path not in standing.texts)
        if (path := next(filter(self._parts.taken, made), None)) is not None:
            self._feedback = (
                f"{path} cannot be made: something of that name is there already, which was not sent to you."
            )
            return machine.Unplaced(), {"why": f"{path} is there already", "taken": path}
        if (path := self._hidden(placed, standing.texts)) is not None:
            self._feedback = _HIDDEN.format(path=path)
            return machine.Unplaced(), {"why": f"it touches text of {path} that was removed", "hidden": path}
        after = {**standing.texts, **versions.edited(standing.texts, placed)}
        edits = edits_between(self.at.texts, after)
        if wrong := self._violations(edits, after):
            self._feedback = "\n".join(f"{v.path}:{v.line}: {v.kind}: {v.what}" for v in wrong)
            self._tell("refused", f"the model's edits go beyond what may be changed: {wrong[0].what}")
            return machine.Violated(), {"violations": [[v.kind, v.path, v.line, v.what] for v in wrong]}
        self._feedback = _REPEATED
        texts = self._with(edits)
        version = self._start.baseline.with_texts(texts)
        self._new = version
        return Written(version.digest), {}

    def _violations(self, edits: Sequence[TextEdit], after: Mapping[str, bytes]) -> tuple[Violation, ...]:
        """What the edits may not do to the best version, and what it and they together may not do to the original: small steps must
        not add up to what one may not do. What the best version holds already, of the rules say, is not held against them."""
        found = violations(self.at.texts, edits, self._scope(self.at), self.at.analysis)
        if found or not self.at.units:
            return found
        if self._original is None:
            self._original = self._standing((), None)
        first = self._original
        more = read_base(self._start.baseline, sorted(after.keys() - first.texts.keys()))
        texts = {**first.texts, **self._parts.sendable(more)}

        def since(now: Mapping[str, bytes]) -> tuple[Violation, ...]:
            return violations(texts, edits_between(texts, now), self._scope(first), first.analysis, most=None)

        held = {(v.kind, v.path, v.what) for v in since(self.at.texts)}
        return tuple(v for v in since(after) if (v.kind, v.path, v.what) not in held)[:MOST_TOLD]

    def _with(self, edits: Sequence[TextEdit]) -> Mapping[str, bytes]:
        """The texts of the best version with the edits made."""
        whole = read_base(self.at.version, sorted({e.path for e in edits}))
        return {**self.at.version.texts, **versions.edited(whole, edits)}

    def _hidden(self, edits: Sequence[TextEdit], texts: Mapping[str, bytes]) -> str | None:
        """The file in which an edit touches what was removed on its way to the model, or writes what stood there instead."""
        hides = self._parts.hides
        touched = (e.path for e in edits if hides(texts.get(e.path, b"")[e.start : e.end]) or hides(e.text))
        return next(touched, None)

    def _unusable(self, reason: str, feedback: str) -> _Step:
        self._feedback = feedback
        self._tell("unusable", f"the model's reply cannot be used: {reason}")
        return machine.Unreadable(), {"why": reason}

    # ---------------------------------------------------------------------------------------------------------- judging

    def _judge(self) -> _Step:
        assert self._new is not None
        candidate = self._judged(self._as_unit(self._new))
        self._draft = self._standing(candidate.units, candidate.verdict)
        final = candidate
        if equal_results(candidate.verdict):
            with suppress(Cancelled):  # what is known of it by then is not lost
                final = self._with_rules(candidate)
        detail: dict[str, Any] = {"version": final.version.digest, "units": list(final.units)}
        if final.verdict.state is not VerdictState.ACCEPTED:
            shown = shown_by(final.verdict)
            if shown is Shown.UNCHECKED and self.best is None:
                self.offered.append(final)
            primary = final.verdict.primary
            return self._ended(shown, primary.issue if primary else final.verdict.state.value, detail)
        result = self._compared(final)
        if not result.better:
            return self._ended(Shown.FLAT, result.sentence, detail)
        self.best = final
        self.offered.append(final)
        self.at = self._standing(final.units, final.verdict)
        return self._ended(Shown.MET if self._met(final.verdict) else Shown.BETTER, result.sentence, detail)

    def _compared(self, final: Candidate) -> Compared:
        def measure(new: Candidate, best: Candidate) -> Verdict | None:
            changed = [u for u in self.units if u.id in set(new.units) - set(best.units)]
            self._tell("compare", "measuring the version beside the best one so far")
            return self._parts.measure(new, best, declared_of(changed))

        best = self.best if self.best is not None and self.best.verdict.state is VerdictState.ACCEPTED else None
        return compared(final, best, measure)

    def _ended(self, shown: Shown, why: str, detail: dict[str, Any]) -> _Step:
        self._history.append(Attempt(self._plan.summary, shown.value, why))
        self._tell("shown", f"{shown.value}: {why}")
        return Judged(shown), {**detail, "why": why}

    def _as_unit(self, version: Version) -> tuple[str, ...]:
        """The version as a unit on top of the best one: the units that make it."""
        edits = edits_between(read_base(self.at.version, sorted(version.texts)), version.texts)
        self.base.update(read_base(self._start.baseline, sorted({e.path for e in edits} - self.base.keys())))
        on = self.at.units
        unit = Unit(
            id="",
            parents=on,
            transform=ID,
            why=self._plan.summary,
            edits=edits,
            declared=DECLARED,
            obligations=(Obligation("its results, its order and its speed", "the validation hub, by running it"),),
            serves=serves(DECLARED, self._start.contract),
        )
        self.units = versions.extend(self.base, self.units, [unit], on)
        return (*on, self.units[-1].id)

    def _judged(self, units: tuple[str, ...]) -> Candidate:
        parts = self._parts
        self._listen()
        version = self._version(units)
        chosen = [u for u in self.units if u.id in units]
        parts.listener.step("judge", f"validating the model's version ({self._plan.summary})", {"units": list(units)})
        verdict = parts.judge.judge(version, declared_of(chosen))
        if verdict.primary is None:
            verdict = replace(verdict, primary=primary_of(verdict.gates))
        candidate = Candidate(units, version, verdict)
        self._keep(candidate)
        return candidate

    def _keep(self, candidate: Candidate) -> None:
        self.judged.append(candidate)
        self._parts.listener.judged(candidate)
        said = f"{candidate.verdict.state.value}: the model's version"
        self._parts.listener.step("judged", said, {"digest": candidate.version.digest})

    def _with_rules(self, candidate: Candidate) -> Candidate:
        """The version with what the rules prove on top of it, where that is accepted and faster; else as it is."""
        parts, start = self._parts, self._start
        rules = Rules(
            parts.transforms, parts.analyser, start.contract, parts.listener.step, lambda: parts.stopped() is not None
        )
        before = len(self.units)
        done = on_top(rules, start.baseline, self.base, self.units, candidate.units, self._known)
        self._refused(done.refusals)
        units = done.units
        if len(units) == before:
            return candidate
        self.units, self.base = units, dict(done.base)
        proposed = self._listen()
        search = Search(start.baseline, proposed, parts.judge, parts.listener, parts.stopped)
        try:
            kept = search.settle(tuple(u for u in units if u.id in candidate.units), units[before:])
        finally:
            self.judged += search.judged
            self._refused(search.refusals)
        self._known |= changes_of(self.base, units, {u.id for u in units[before:]} - {u.id for u in kept})
        chosen = tuple(u.id for u in kept)
        better = next((c for c in search.judged if c.units == chosen), None)
        if better is None or better.verdict.state is not VerdictState.ACCEPTED:
            return candidate
        mine, other = candidate.speedup, better.speedup
        slower = mine is not None and other is not None and other[1].middle < mine[1].middle
        return candidate if candidate.verdict.state is VerdictState.ACCEPTED and slower else better

    def _refused(self, refusals: Sequence[Refusal]) -> None:
        """Only what was not told before: most stays as it was in the version below."""
        new = (r for r in refusals if r not in self._start.refusals)
        self.refusals = tuple(dict.fromkeys((*self.refusals, *new)))

    def _met(self, verdict: Verdict) -> bool:
        bounds = self._start.contract.bounds
        return bool(bounds) and len(verdict.bounds) == len(bounds) and all(b.met for b in verdict.bounds)

    # -------------------------------------------------------------------------------------------------------- situation

    def _listen(self) -> Proposed:
        """The listener knows every unit before a version holds it."""
        proposed = replace(self._start.proposed, units=self.units, base=self.base, refusals=self._start.refusals)
        self._parts.listener.proposed(proposed)
        return proposed

    def _version(self, units: Sequence[str]) -> Version:
        return self._start.baseline.with_texts(versions.compose(self.base, self.units, units))

    def _standing(self, units: tuple[str, ...], verdict: Verdict | None) -> _Standing:
        version = self._version(units)
        analysis = self._parts.analyser.analyse(version)
        texts = self._parts.sendable(read_base(version, sorted({*analysis.sources, *version.texts})))
        return _Standing(units, version, texts, analysis, verdict)

    def _scope(self, standing: _Standing) -> Scope:
        return Scope(tuple(sorted(standing.texts)), may_add_files=self._start.baseline.root.is_dir())

    def _brief(self, standing: _Standing) -> Brief:
        start = self._start
        best = self.at.verdict
        return Brief(
            contract=start.contract,
            texts=standing.texts,
            analysis=standing.analysis,
            scope=self._scope(standing),
            refusals=start.refusals,
            applied=tuple(u.why for u in self.units if u.id in self.at.units),
            measured=_figures(start.measured.measured, best),
            trace=start.measured.trace,
            capabilities=self._parts.capabilities,
            build=best.gate("G2") if best is not None else None,
            history=tuple(self._history),
        )

    def _tell(self, kind: str, sentence: str) -> None:
        self._parts.listener.step(kind, sentence, {})


def _figures(original: Mapping[str, Any], best: Verdict | None) -> dict[str, Any]:
    """Seconds of the original and of the best version by figure, and what limits it."""
    found: dict[str, Any] = {name: {"original": figures.get("baseline")} for name, figures in original.items()}
    for name, figures in (best.measured if best is not None else {}).items():
        found[name] = {"original": figures.get("baseline"), "best": figures.get("candidate")}
    if best is not None and best.limits:
        found["limits"] = best.limits
    return found


def _named(kind: str, text: str) -> str:
    return f"{kind}:{hashlib.blake2b(text.encode(errors='surrogatepass'), digest_size=8).hexdigest()}"
