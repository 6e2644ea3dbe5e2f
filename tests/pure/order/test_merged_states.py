"""Two groups of paths that become one: what is certain of a thing that a place held on some of them."""

from __future__ import annotations

from itertools import count

from stitchcuda.analysis.order.state import State, handles_differ, merge, order_differs
from stitchcuda.analysis.order.symbolic import ZERO
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


def merged(a: State, b: State) -> State:
    names = (f"s{k}" for k in count())
    return merge(a, b, lambda: next(names))


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
