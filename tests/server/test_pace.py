"""When a long analysis says what it knows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from stitchcuda.server.engine.pace import Pace

LONG, SHORT = 100_000, 10_000


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def told(size: int, is_new: bool, seconds: float, step: float = 0.005) -> list[float]:
    """When it was told, of an analysis that offers something all the time."""
    clock = Time()
    at: list[float] = []

    def tell(_: object) -> bool:
        at.append(round(clock.now, 3))
        return True

    pace = Pace(tell, size, is_new, clock)
    while clock.now < seconds:
        clock.now += step
        pace(lambda: "known")
    return at


def test_a_new_file_soon_then_less_and_less_often() -> None:
    at = told(LONG, True, 10.0)
    assert at[0] <= 0.02
    gaps = [b - a for a, b in pairwise(at)]
    assert all(a <= b + 0.01 for a, b in pairwise(gaps))
    assert max(gaps) <= 2.1 and len(at) <= 10


def test_an_edit_of_what_is_shown_disturbs_only_when_it_takes_long() -> None:
    assert told(LONG, False, 0.14) == []
    assert told(LONG, False, 0.5)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_short_file_comes_at_once(is_new: bool) -> None:
    assert told(SHORT, is_new, 1.9) == []


def test_a_new_file_is_looked_at_again_soon_while_nothing_was_found_but_not_all_the_time() -> None:
    clock = Time()
    looks: list[float] = []

    def tell(_: object) -> bool:
        looks.append(clock.now)
        clock.now += 0.002  # what a look takes
        return clock.now > 1.0

    pace = Pace(tell, LONG, True, clock)
    while clock.now < 1.1:
        clock.now += 0.001
        pace(lambda: "known")
    assert 1.0 < looks[-1] < 1.06, "what was found then is told soon"
    assert 0.002 * len(looks) < 0.1, "to look takes a small part of the time"


def test_what_cannot_be_told_yet_is_asked_for_again_later() -> None:
    clock = Time()
    pace = Pace(lambda _: True, LONG, True, clock)
    clock.now = 1.0
    assert pace(lambda: None) is False
    assert pace(lambda: "known") is False, "not at once: it takes time to find out"
    clock.now = 5.0
    assert pace(lambda: "known") is True
