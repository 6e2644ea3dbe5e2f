"""Two groups of paths that become one: what is certain of a thing that a place held on some of them."""

from __future__ import annotations

from itertools import count

import pytest
from stitchcuda.analysis.order.state import State, handles_differ, merge, order_differs
from stitchcuda.analysis.order.symbolic import ONE, ZERO
from stitchcuda.analysis.order.values import Num, Place, Pointer, Unknown, Value

THING = Pointer(Place(7))
OTHER = Pointer(Place(8))
KEY = ("memory", 7, 0)
NULL = Num(ZERO)


def holding(*values: Value) -> State:
    state = State()
    for number, value in enumerate(values):
        state.store(Place(number), value)
    return state


def merged(a: State, b: State, from_before: bool = False) -> State:
    names = (f"s{k}" for k in count())
    return merge(a, b, lambda: next(names), lambda obj, path: from_before)


def test_a_thing_held_in_one_place_or_another_needs_no_paths_of_its_own() -> None:
    """An option of many that is kept under its own name: each would double the paths."""
    a, b = holding(THING, NULL), holding(NULL, THING)
    assert not order_differs(a, b) and not handles_differ(a, b)
    state = merged(a, b)
    assert state.divided == {KEY}
    assert state.doubtful == {KEY}


def test_a_name_that_holds_a_thing_on_some_paths() -> None:
    state = merged(holding(THING, OTHER), holding(Unknown("given"), OTHER))
    assert state.doubtful == {KEY}
    assert not state.divided
    assert not merged(holding(THING), holding(THING)).doubtful


def test_two_things_in_one_place_stay_apart() -> None:
    assert handles_differ(holding(THING), holding(OTHER)) and not order_differs(holding(THING), holding(OTHER))


@pytest.mark.parametrize("first", (True, False))
def test_a_number_from_before_that_only_some_paths_wrote_is_not_known(first: bool) -> None:
    """`bool use = false;` at namespace scope, `if (asked) use = true;`."""
    wrote, left = holding(Num(ONE)), State()
    a, b = (wrote, left) if first else (left, wrote)
    held = merged(a.copy(), b.copy(), from_before=True).load(Place(0))
    assert isinstance(held, Num) and held.value.constant is None
    assert merged(a, b).load(Place(0)) == Num(ONE)  # made on these paths: there is no other


def test_a_thing_that_only_some_paths_put_there_is_the_one_that_is_meant() -> None:
    state = merged(State(), holding(THING), from_before=True)
    assert state.load(Place(0)) == THING


def test_a_field_that_only_some_paths_wrote() -> None:
    a, b = State(), State()
    for state in (a, b):
        state.store(Place(0, ("size",)), Num(ONE))
    b.store(Place(0, ("fast",)), Num(ONE))
    state = merged(a, b, from_before=True)
    assert state.load(Place(0, ("size",))) == Num(ONE)
    assert state.load(Place(0, ("fast",))) != Num(ONE)
