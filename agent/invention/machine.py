"""What is done next with a language model, as a pure state machine: the state is a function of the events, and nothing here asks,
judges or knows a clock.

A round is one request for a plan, for edits or for a fix, with the answers of tools that belong to it. Every round counts, whatever
comes of it, so that every sequence of events ends within the rounds that were given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from typing import TypeAlias

from stitchcuda.agent.outcome import Stop

AGAIN = 2  # failures of one kind, of one plan, after which another plan is asked for; also flat rounds
UNREADABLE = 3  # replies in a row that cannot be used, after which nobody is asked any more
UNPLACED = 3  # edits of one plan that do not fit their text, after which another plan is asked for
WHOLE = 2  # from here on functions are to be given whole
IDEAS = 3  # plans that were given up without any gain between them, after which no other is asked for


class Phase(StrEnum):
    """What comes next. Of the first eight each is a request to the model."""

    DRAFT = "draft"
    OPTIMISE = "optimise"
    REPLAN = "replan"
    CODE = "code"
    REPAIR_COMPILE = "repair compile"
    REPAIR_RESULTS = "repair results"
    REPAIR_ORDER = "repair hazard or order"
    REPAIR_HANG = "repair hang"
    JUDGE = "judge"
    STOP = "stop"


PLANNING = (Phase.DRAFT, Phase.OPTIMISE, Phase.REPLAN)
REPAIRING = (Phase.REPAIR_COMPILE, Phase.REPAIR_RESULTS, Phase.REPAIR_ORDER, Phase.REPAIR_HANG)
WRITING = (Phase.CODE, *REPAIRING)


class Shown(StrEnum):
    """What the judge showed of a version."""

    BETTER = "faster"
    MET = "faster, and the contract is met"
    FLAT = "no gain"
    COMPILE = "does not build"
    RESULTS = "other results"
    ORDER = "a hazard, or an order is lost"
    HANG = "hangs"
    UNCHECKED = "cannot be checked on this machine"


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan was read; `done`: the model sees nothing worth trying."""

    digest: str
    done: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """Edits were read, found their places and stay within the scope; `digest` names the version that they make."""

    digest: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The reply has not the form that was asked for."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """The edits do not fit the text."""


@dataclass(frozen=True, slots=True)
class Violated:
    """The edits go beyond what may be changed."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The model, or a filter of the endpoint, does not answer."""


@dataclass(frozen=True, slots=True)
class Judged:
    shown: Shown


@dataclass(frozen=True, slots=True)
class Halted:
    """From outside: cancelled, a budget is spent, the model cannot be asked."""

    stop: Stop


Event: TypeAlias = Planned | Written | Unreadable | Unplaced | Violated | Refused | Judged | Halted


@dataclass(frozen=True)
class State:
    """`retry`: the next request continues the last one, with what was wrong about its reply. `failures` counts by kind, and
    `unplaced` edits without a place, of the plan at hand; `flat` rounds and given-up `ideas` count since the last gain, `unreadable`
    replies in a row. `seen` names plans and versions that were there. `told` are warnings that are given once."""

    limit: int
    phase: Phase = Phase.DRAFT
    round: int = 0
    retry: bool = False
    failures: tuple[Shown, ...] = ()
    unplaced: int = 0
    unreadable: int = 0
    flat: int = 0
    ideas: int = 0
    seen: frozenset[str] = frozenset()
    told: frozenset[Stop] = frozenset()
    stop: Stop | None = None

    @property
    def whole(self) -> bool:
        """Whether functions are to be given whole, because anchors failed."""
        return self.unplaced >= WHOLE


def begin(limit: int, seen: Iterable[str] = ()) -> State:
    """`limit` rounds; `seen` are the digests of versions that need not be proposed."""
    state = State(limit, seen=frozenset(seen))
    return state if limit > 0 else _stopped(state, Stop.ROUNDS_SPENT)


def replay(state: State, events: Iterable[Event]) -> State:
    """Where the events lead. Raises ValueError for one that cannot come then."""
    return reduce(advance, events, state)


def fits(state: State, event: Event) -> bool:
    """Whether the event can come in this state."""
    if state.phase is Phase.STOP:
        return False
    if isinstance(event, Halted):
        return True
    if isinstance(event, Judged):
        return state.phase is Phase.JUDGE
    if isinstance(event, Planned):
        return state.phase in PLANNING
    if isinstance(event, (Written, Unplaced, Violated)):
        return state.phase in WRITING
    return state.phase is not Phase.JUDGE


def advance(state: State, event: Event) -> State:
    """The state after the event. Raises ValueError for an event that cannot come in this state."""
    if not fits(state, event):
        raise ValueError(f"{event} cannot come in the state {state.phase.value}")
    if isinstance(event, Halted):
        return _stopped(state, event.stop)
    if isinstance(event, Judged):
        after = _judged(replace(state, retry=False), event.shown)
    else:
        after = _answered(replace(state, round=state.round + 1, retry=False), event)
    if after.phase not in (Phase.JUDGE, Phase.STOP) and after.round >= after.limit:
        return _stopped(after, Stop.ROUNDS_SPENT)
    return after


def _answered(state: State, event: Event) -> State:
    match event:
        case Unreadable():
            state = replace(state, unreadable=state.unreadable + 1, retry=True)
            return _stopped(state, Stop.UNREADABLE) if state.unreadable >= UNREADABLE else state
        case Refused():
            return _once(state, Stop.REFUSED, _replan(state))
        case Planned(done=True):
            return _stopped(state, Stop.NO_IDEA)
        case Planned(digest) | Written(digest) if digest in state.seen:
            return _once(state, Stop.REPEATS, replace(state, unreadable=0, retry=True))
        case Planned(digest):
            return replace(state, phase=Phase.CODE, failures=(), unplaced=0, unreadable=0, seen=state.seen | {digest})
        case Written(digest):
            return replace(state, phase=Phase.JUDGE, unplaced=0, unreadable=0, seen=state.seen | {digest})
        case Violated():
            return _once(state, Stop.OUT_OF_SCOPE, replace(state, unreadable=0, retry=True))
        case _:
            state = replace(state, unplaced=state.unplaced + 1, unreadable=0)
            return _replan(state) if state.unplaced >= UNPLACED else replace(state, retry=not state.whole)


def _judged(state: State, shown: Shown) -> State:
    if shown is Shown.MET:
        return _stopped(state, Stop.CONTRACT_MET)
    if shown is Shown.UNCHECKED:
        return _stopped(state, Stop.UNCHECKED)
    if shown is Shown.BETTER:
        return replace(state, phase=Phase.OPTIMISE, flat=0, ideas=0)
    if shown is Shown.FLAT:
        state = replace(state, flat=state.flat + 1)
        return _replan(state) if state.flat >= AGAIN else replace(state, phase=Phase.OPTIMISE)
    state = replace(state, failures=(*state.failures, shown))
    return _replan(state) if state.failures.count(shown) >= AGAIN else replace(state, phase=_REPAIR[shown])


_REPAIR = {
    Shown.COMPILE: Phase.REPAIR_COMPILE,
    Shown.RESULTS: Phase.REPAIR_RESULTS,
    Shown.ORDER: Phase.REPAIR_ORDER,
    Shown.HANG: Phase.REPAIR_HANG,
}


def _replan(state: State) -> State:
    """Another plan, made for the best version; what was tried is told."""
    if state.ideas >= IDEAS:
        return _stopped(state, Stop.GAVE_UP)
    return replace(state, phase=Phase.REPLAN, retry=False, failures=(), unplaced=0, flat=0, ideas=state.ideas + 1)


def _once(state: State, why: Stop, told: State) -> State:
    """`told` the first time, a stop the second."""
    return _stopped(state, why) if why in state.told else replace(told, told=told.told | {why})


def _stopped(state: State, why: Stop) -> State:
    return replace(state, phase=Phase.STOP, retry=False, stop=why)
