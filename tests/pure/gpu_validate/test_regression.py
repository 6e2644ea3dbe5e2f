"""Device times compared site by site: what became slower is found on its line, noise and moved lines are not."""

from __future__ import annotations

import random

import pytest
from stitchcuda.gpu_validate.regression import regressions, site_times
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, Trace

Times = dict[tuple[int, str], int]  # (line, kernel) -> nanoseconds


def trace(times: Times, draw: random.Random, noise: float = 0.01, dropped: int = 0) -> Trace:
    calls: list[Call] = []
    ops: list[DeviceOp] = []
    for k in range(10):
        for (line, kernel), duration in times.items():
            n = len(calls)
            calls.append(Call(n, "cudaLaunchKernel", 0, 1, correlation=n + 1, sites=(CallSite("a.cu", line, "main"),)))
            took = round(duration * (1 + noise * draw.random()) * (3 if k == 0 else 1))  # the first one is slow
            ops.append(DeviceOp("kernel", 1000, 1000 + took, 0, n + 1, kernel))
    return Trace("full", 0, 1, 2, tuple(calls), tuple(ops), device="H200", dropped=dropped)


def traces(times: Times, seed: int, count: int = 3, noise: float = 0.01) -> list[Trace]:
    draw = random.Random(seed)
    return [trace(times, draw, noise) for _ in range(count)]


BEFORE: Times = {(10, "scale"): 20_000, (12, "sum"): 50_000, (14, "scale"): 20_000}


def test_a_slower_kernel_is_found_on_its_line_even_when_it_moved() -> None:
    after = {(13, "scale"): 20_000, (15, "sum"): 60_000, (17, "scale"): 20_000}
    (found,) = regressions(site_times(traces(BEFORE, 1)), site_times(traces(after, 2)))
    assert (found.line, found.key.operation, found.count) == (15, "sum", 10)
    assert found.ratio == pytest.approx(1.2, abs=0.02)
    assert "sum takes 60." in found.message and "20 % more" in found.message


def test_of_two_equal_launches_the_right_one_is_named() -> None:
    after = {**BEFORE, (14, "scale"): 24_000}
    (found,) = regressions(site_times(traces(BEFORE, 1)), site_times(traces(after, 2)))
    assert found.line == 14


def test_which_is_which_is_not_guessed_when_one_was_added() -> None:
    after: Times = {(9, "scale"): 90_000, **BEFORE}
    assert regressions(site_times(traces(BEFORE, 1)), site_times(traces(after, 2))) == ()


def test_a_program_against_itself_is_never_slower() -> None:
    for seed in range(200):
        noise = (0.0, 0.02, 0.3)[seed % 3]
        old, new = site_times(traces(BEFORE, seed, noise=noise)), site_times(traces(BEFORE, seed + 1000, noise=noise))
        assert regressions(old, new) == ()


def test_too_few_runs_and_tiny_differences_say_nothing() -> None:
    slow = {**BEFORE, (12, "sum"): 90_000}
    assert regressions(site_times(traces(BEFORE, 1, count=2)), site_times(traces(slow, 2))) == ()
    tiny, tinier = {(10, "k"): 1_400}, {(10, "k"): 1_000}
    assert regressions(site_times(traces(tinier, 1)), site_times(traces(tiny, 2))) == ()


def test_lost_records_are_an_error() -> None:
    with pytest.raises(ValueError, match="lost records"):
        site_times([trace(BEFORE, random.Random(1), dropped=1)])
