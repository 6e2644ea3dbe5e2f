"""The state machine of invention: every sequence of events ends within the rounds, and the state is a function of the events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stitchcuda.agent.invention.machine import (
    IDEAS,
    PLANNING,
    WRITING,
    Event,
    Halted,
    Judged,
    Phase,
    Planned,
    Refused,
    Shown,
    State,
    Unplaced,
    Unreadable,
    Violated,
    Written,
    advance,
    begin,
    fits,
    replay,
)
from stitchcuda.agent.outcome import Stop

DIGESTS = st.sampled_from([f"{k}" for k in range(6)])
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(Planned, DIGESTS, st.booleans()),
    st.builds(Written, DIGESTS),
    st.just(Unreadable()),
    st.just(Unplaced()),
    st.just(Violated()),
    st.just(Refused()),
    st.builds(Judged, st.sampled_from(Shown)),
    st.builds(Halted, st.sampled_from([Stop.CANCELLED, Stop.BUDGET_SPENT, Stop.NO_MODEL])),
)


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 9), st.lists(EVENTS, max_size=60))
def test_every_sequence_of_events_ends_within_the_rounds(limit: int, drawn: list[Event]) -> None:
    state = begin(limit)
    happened: list[Event] = []
    for event in drawn:
        if not fits(state, event):
            with pytest.raises(ValueError, match="cannot come in the state"):
                advance(state, event)
            continue
        before, state = state, advance(state, event)
        happened.append(event)
        asked = not isinstance(event, (Judged, Halted))
        assert state.round == before.round + asked <= limit
        assert (state.phase is Phase.STOP) == (state.stop is not None)
        assert state.phase is Phase.STOP or state.phase is Phase.JUDGE or state.round < limit
        assert state.ideas <= IDEAS
        assert not state.retry or state.phase is before.phase
    assert replay(begin(limit), happened) == state


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 9), st.randoms(use_true_random=False))
def test_a_model_and_a_judge_that_never_tire_come_to_an_end(limit: int, random: object) -> None:
    """Only events without a stop of their own, each time one that fits: at most a verdict for each round."""
    state, steps = begin(limit), 0
    while state.phase is not Phase.STOP:
        steps += 1
        assert steps <= 2 * limit
        fresh = f"new {steps}"
        choices: list[Event] = [Planned(fresh), Written(fresh), Unreadable(), Unplaced(), Violated(), Refused()]
        choices += [Judged(s) for s in Shown]
        state = advance(state, random.choice([e for e in choices if fits(state, e)]))  # type: ignore[attr-defined]


def at(*events: Event, limit: int = 20) -> State:
    return replay(begin(limit), events)


PLAN, CODE = Planned("p"), Written("v")


@pytest.mark.parametrize(
    ("shown", "phase"),
    [
        (Shown.COMPILE, Phase.REPAIR_COMPILE),
        (Shown.RESULTS, Phase.REPAIR_RESULTS),
        (Shown.ORDER, Phase.REPAIR_ORDER),
        (Shown.HANG, Phase.REPAIR_HANG),
        (Shown.FLAT, Phase.OPTIMISE),
        (Shown.BETTER, Phase.OPTIMISE),
    ],
)
def test_what_follows_a_verdict_and_that_the_second_failure_of_a_kind_is_another_plan(
    shown: Shown, phase: Phase
) -> None:
    once = at(PLAN, CODE, Judged(shown))
    assert once.phase is phase
    if shown in (Shown.BETTER, Shown.FLAT):
        once = advance(once, Planned("p2"))
    twice = advance(advance(once, Written("v2")), Judged(shown))
    assert twice.phase is (Phase.OPTIMISE if shown is Shown.BETTER else Phase.REPLAN)


def test_failures_of_different_kinds_are_repaired_and_a_new_plan_starts_afresh() -> None:
    state = at(PLAN, CODE, Judged(Shown.COMPILE), Written("a"), Judged(Shown.RESULTS), Written("b"))
    assert advance(state, Judged(Shown.HANG)).phase is Phase.REPAIR_HANG
    state = advance(state, Judged(Shown.RESULTS))
    assert state.phase is Phase.REPLAN and state.ideas == 1
    state = replay(state, [Planned("q"), Written("c"), Judged(Shown.COMPILE)])
    assert state.phase is Phase.REPAIR_COMPILE


def test_a_gain_makes_up_for_what_brought_none() -> None:
    flat = at(PLAN, CODE, Judged(Shown.FLAT), Planned("q"), Written("w"), Judged(Shown.BETTER))
    assert (flat.flat, flat.ideas) == (0, 0)
    assert replay(flat, [Planned("r"), Written("x"), Judged(Shown.FLAT)]).phase is Phase.OPTIMISE


def test_after_several_plans_without_gain_nobody_is_asked_any_more() -> None:
    state, n = begin(50), 0
    while state.phase is not Phase.STOP:
        n += 1
        event: Event = Planned(f"p{n}") if state.phase in PLANNING else Written(f"v{n}")
        state = advance(state, Judged(Shown.FLAT) if state.phase is Phase.JUDGE else event)
    assert state.stop is Stop.GAVE_UP and state.ideas == IDEAS


@pytest.mark.parametrize(
    ("event", "stop"),
    [(Violated(), Stop.OUT_OF_SCOPE), (Written("v"), Stop.REPEATS), (Planned("p"), Stop.REPEATS)],
)
def test_what_is_told_once_is_a_stop_the_second_time(event: Event, stop: Stop) -> None:
    """Also when other things happened between."""
    phases = PLANNING if isinstance(event, Planned) else WRITING
    state = at(PLAN, CODE, Judged(Shown.COMPILE), Written("w"), Judged(Shown.FLAT), Planned("q"))
    if event == Planned("p"):
        state = at(PLAN, CODE, Judged(Shown.BETTER))
    told = advance(state, event)
    assert told.phase in phases and told.retry and told.stop is None
    if isinstance(event, Planned):
        told = replay(told, [Planned("r"), Written("x"), Judged(Shown.BETTER)])
    else:
        told = replay(told, [Written("x"), Judged(Shown.COMPILE)])
    assert advance(told, event).stop is stop


def test_anchors_that_fail_twice_ask_for_whole_functions_and_then_for_another_plan() -> None:
    state = at(PLAN, Unplaced())
    assert state.retry and not state.whole
    state = advance(state, Unplaced())
    assert state.phase is Phase.CODE and state.whole and not state.retry
    assert advance(state, Unplaced()).phase is Phase.REPLAN
    assert not advance(state, CODE).whole


def test_three_replies_in_a_row_that_cannot_be_used_are_the_end() -> None:
    assert at(Unreadable(), Unreadable(), PLAN, Unreadable(), Unreadable()).stop is None
    assert at(Unreadable(), Unreadable(), Unreadable()).stop is Stop.UNREADABLE


def test_a_refusal_is_another_plan_and_a_second_one_the_end() -> None:
    state = at(PLAN, Refused())
    assert state.phase is Phase.REPLAN
    assert advance(state, Refused()).stop is Stop.REFUSED


def test_ends_of_their_own() -> None:
    assert at(Planned("p", done=True)).stop is Stop.NO_IDEA
    assert at(PLAN, CODE, Judged(Shown.MET)).stop is Stop.CONTRACT_MET
    assert at(PLAN, CODE, Judged(Shown.UNCHECKED)).stop is Stop.UNCHECKED
    assert at(PLAN, Halted(Stop.CANCELLED)).stop is Stop.CANCELLED
    assert at(PLAN, limit=1).stop is Stop.ROUNDS_SPENT
    assert at(PLAN, CODE, limit=2).phase is Phase.JUDGE  # what was written is judged
    assert at(PLAN, CODE, Judged(Shown.BETTER), limit=2).stop is Stop.ROUNDS_SPENT
    assert begin(0).stop is Stop.ROUNDS_SPENT
    assert replay(begin(9, ["v"]), [PLAN, CODE]).phase is Phase.CODE  # the version that is there already
