"""What a verdict says to the machine, and when one version is faster than another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from stitchcuda.agent.invention.judging import at_home, compared, equal_results, shown_by
from stitchcuda.agent.invention.machine import Shown
from stitchcuda.agent.outcome import Candidate
from stitchcuda.gpu_validate.primary import primary_of
from stitchcuda.gpu_validate.verdict import (
    GATES,
    GateFinding,
    GateResult,
    GateState,
    Interval,
    Verdict,
    VerdictState,
    decide,
)
from stitchcuda.gpu_validate.version import Version

PASSED, FAILED = GateState.PASSED, GateState.FAILED
OPEN, UNTESTED = GateState.INCONCLUSIVE, GateState.UNTESTED


def verdict(
    speed: Interval | None = None, figure: str = "latency", states: Mapping[str, GateState] | None = None
) -> Verdict:
    states = states or {}
    gates = tuple(GateResult(g, states.get(g, PASSED), "" if states.get(g, PASSED) is PASSED else "why") for g in GATES)
    return Verdict(decide(gates), gates, {} if speed is None else {figure: speed}, primary=primary_of(gates))


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        ({}, Shown.BETTER),
        ({"G0": FAILED}, Shown.ORDER),
        ({"G1": FAILED}, Shown.ORDER),
        ({"G2": FAILED, "G3": UNTESTED}, Shown.COMPILE),
        ({"G3": FAILED, "G6": UNTESTED}, Shown.RESULTS),
        ({"G4": FAILED}, Shown.ORDER),
        ({"G6": FAILED}, Shown.FLAT),
        ({"G6": OPEN}, Shown.FLAT),
        ({"G3": OPEN, "G6": UNTESTED}, Shown.FLAT),  # the original itself varies: nothing that a repair could do
        ({"G1": UNTESTED}, Shown.ORDER),  # it can be written so that it is followed
        ({"G1": UNTESTED, "G3": UNTESTED}, Shown.ORDER),
        ({"G0": UNTESTED, "G1": UNTESTED}, Shown.UNCHECKED),
        ({"G3": UNTESTED, "G4": UNTESTED, "G6": UNTESTED}, Shown.UNCHECKED),
        ({"G4": UNTESTED}, Shown.UNCHECKED),
        ({"G2": UNTESTED}, Shown.UNCHECKED),
        ({"G5": UNTESTED, "G7": UNTESTED}, Shown.BETTER),
    ],
)
def test_the_gate_that_speaks_first(states: dict[str, GateState], shown: Shown) -> None:
    assert shown_by(verdict(states=states)) is shown


@pytest.mark.parametrize(
    ("stopped", "shown"),
    [("seconds", Shown.HANG), ("stuck", Shown.HANG), ("memory_bytes", Shown.RESULTS), (None, Shown.RESULTS)],
)
def test_a_hang_is_told_from_other_results(stopped: str | None, shown: Shown) -> None:
    gates = (GateResult("G3", FAILED, "it was stopped", {} if stopped is None else {"stopped": stopped}),)
    assert shown_by(Verdict(VerdictState.REJECTED, gates)) is shown


def test_equal_results_need_every_gate_but_the_gain() -> None:
    assert equal_results(verdict(states={"G6": OPEN})) and equal_results(verdict(states={"G6": FAILED}))
    for gate in ("G0", "G1", "G2", "G3", "G4"):
        for state in (FAILED, OPEN, UNTESTED):
            assert not equal_results(verdict(states={gate: state}))


def candidate(low: float, middle: float, high: float, figure: str = "latency") -> Candidate:
    return Candidate((figure,), Version(Path(f"{low}")), verdict(Interval(low, middle, high), figure))


BEST = candidate(1.19, 1.20, 1.21)


@pytest.mark.parametrize(
    ("new", "beside", "better", "measured"),
    [
        (candidate(1.24, 1.25, 1.26), None, True, False),  # apart
        (candidate(1.22, 1.23, 1.24), None, False, True),  # apart, by less than counts
        (candidate(1.15, 1.25, 1.35), None, False, True),  # nothing to measure with
        (candidate(1.15, 1.25, 1.35), verdict(Interval(1.03, 1.04, 1.05)), True, True),
        (candidate(1.15, 1.25, 1.35), verdict(Interval(0.99, 1.0, 1.01), states={"G6": OPEN}), False, True),
        (candidate(1.15, 1.25, 1.35), verdict(Interval(1.2, 1.3, 1.4), states={"G3": FAILED}), False, True),
        (candidate(1.10, 1.20, 1.30), None, False, False),  # no better on the whole
        (candidate(1.01, 1.02, 1.03), verdict(), False, False),
        (candidate(9.0, 9.1, 9.2, "cuda_span"), None, False, True),  # another figure says nothing
    ],
)
def test_faster_than_the_best_so_far(new: Candidate, beside: Verdict | None, better: bool, measured: bool) -> None:
    asked: list[tuple[Candidate, Candidate]] = []

    def measure(one: Candidate, other: Candidate) -> Verdict | None:
        asked.append((one, other))
        return beside

    found = compared(new, BEST, measure)
    assert found.better is better and found.sentence
    assert asked == ([(new, BEST)] if measured else [])


def test_what_is_faster_than_the_original_is_faster_than_nothing_else_there_was() -> None:
    def never(one: Candidate, other: Candidate) -> Verdict | None:
        raise AssertionError

    assert compared(candidate(1.03, 1.04, 1.05), None, never).better


@pytest.mark.parametrize(
    ("folder", "text", "told"),
    [
        ("p", "p/a.cu:3: error in p/b/c.cu", "a.cu:3: error in b/c.cu"),
        ("p", "lib/p/a.cu, up/a.cu and p.cu", "lib/p/a.cu, up/a.cu and p.cu"),  # other places
        ("/x/p", "/x/p/a.cu and /y/x/p/a.cu", "a.cu and /y/x/p/a.cu"),
        (".", "./a.cu", "a.cu"),
        ("p", f"{Path('p').absolute()}/a.cu", "a.cu"),
        ("p", f"{Path.home()}/.cache/b/a.cu", "~/.cache/b/a.cu"),
    ],
)
def test_paths_of_this_machine(folder: str, text: str, told: str) -> None:
    gates = (GateResult("G2", FAILED, text),)
    assert at_home(Verdict(VerdictState.REJECTED, gates), Path(folder)).gates[0].reason == told


def test_where_the_program_lies_is_taken_out() -> None:
    folder = Path("/home/somebody/p")
    found = GateFinding("/home/somebody/p/a.cu(3): error", "/home/somebody/p/a.cu", 3)
    gates = (GateResult("G2", FAILED, "/home/somebody/p/a.cu(3): error: no", findings=(found,)),)
    told = at_home(Verdict(VerdictState.REJECTED, gates, primary=primary_of(gates)), folder)
    assert told.primary is not None and (told.primary.path, told.primary.line) == ("a.cu", 3)
    assert told.primary.issue == told.gates[0].reason == "a.cu(3): error: no"
    assert told.gates[0].findings == (GateFinding("a.cu(3): error", "a.cu", 3),)
