"""What gates add up to, which figure decides, what is to be put right first, and bounds against what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stitchcuda.analysis.contract.types import Bound, Contract, TensorSpec
from stitchcuda.gpu_validate.bounds import Measured, bound_results, peak_memory
from stitchcuda.gpu_validate.figures import Figures, governing, tracing_gain
from stitchcuda.gpu_validate.gates.g6_latency import judge
from stitchcuda.gpu_validate.primary import primary_of
from stitchcuda.gpu_validate.statistics import Claim, Comparison
from stitchcuda.gpu_validate.trace.model import Call, Trace
from stitchcuda.gpu_validate.verdict import (
    GATES,
    REQUIRED,
    GateFinding,
    GateResult,
    GateState,
    Interval,
    VerdictState,
    decide,
)

LATENCY = Contract(bounds=(Bound("latency", "p99", "<", 0.008, "s"),))


def compared(claim: str, middle: float) -> Comparison:
    return Comparison(Claim(claim), Interval(middle * 0.99, middle, middle * 1.01), 6, 0.5, 0.5, 1e-5)


@pytest.mark.parametrize(
    ("span", "wall", "busy", "state", "says"),
    [
        (("faster", 1.3), ("open", 1.0), ("open", 1.0), "passed", ""),
        (("faster", 1.3), ("slower", 0.9), ("faster", 2.0), "failed", "wall-clock time"),  # row 20
        (("faster", 1.3), ("open", 0.97), ("open", 1.0), "inconclusive", "may be worse"),
        (("open", 1.0), ("faster", 1.3), ("faster", 2.0), "inconclusive", "no real gain"),
        (("open", 1.1), ("open", 1.1), ("open", 1.1), "inconclusive", "could show"),
        (("slower", 0.9), ("faster", 1.3), ("open", 1.0), "failed", "CUDA span"),
        (
            ("faster", 1.3),
            ("open", 1.0),
            ("slower", 0.8),
            "passed",
            "",
        ),  # overlapping work may take longer and end sooner
    ],
)
def test_which_figures_decide(
    span: tuple[str, float], wall: tuple[str, float], busy: tuple[str, float], state: str, says: str
) -> None:
    figures = {"cuda_span": compared(*span), "wall": compared(*wall), "gpu_busy": compared(*busy)}
    result, reason = judge(figures, "cuda_span")
    assert result.value == state and says in reason


def test_the_bound_s_figure_governs_where_it_could_be_measured() -> None:
    assert governing(LATENCY, ["latency", "cuda_span", "wall"]) == "latency"
    assert governing(LATENCY, ["cuda_span", "wall"]) == "cuda_span"
    assert governing(Contract(), ["latency", "cuda_span", "wall"]) == "cuda_span"
    assert governing(Contract(), ["wall"]) is None


def test_faster_means_the_program_unless_functions_are_named() -> None:
    faster = Contract(bounds=(Bound("speedup", "mean", ">=", 1.5, "1"),))
    assert governing(faster, ["latency", "cuda_span", "wall"]) == "cuda_span"
    assert governing(replace(faster, scope=("forward",)), ["latency", "cuda_span", "wall"]) == "latency"


def test_fewer_calls_gain_nothing_by_being_traced_less_and_more_calls_are_not_forgiven() -> None:
    many, few = [Figures({}, 30_000)], [Figures({}, 10_000)]
    assert tracing_gain(many, few) == pytest.approx(0.04)
    assert tracing_gain(few, many) == 0.0


def gates(**states: str) -> list[GateResult]:
    return [GateResult(g, GateState(states.get(g, "passed")), "why") for g in GATES]


def test_nothing_missing_is_ever_accepted() -> None:
    assert decide(gates(G1="proved", G5="untested", G7="untested")) is VerdictState.ACCEPTED
    for gate in REQUIRED:
        for state in ("untested", "inconclusive"):
            assert decide(gates(**{gate: state})) is VerdictState.UNPROVEN
        assert decide([g for g in gates() if g.gate != gate]) is VerdictState.UNPROVEN
    for gate in GATES:
        assert decide(gates(**{gate: "failed"})) is VerdictState.REJECTED


def test_the_first_failure_is_the_primary_issue_with_its_place() -> None:
    found = gates(G2="untested", G3="failed", G6="failed")
    old, new = GateFinding("old", "a.cu", 1, True), GateFinding("new", "a.cu", 7)
    found[3] = GateResult("G3", GateState.FAILED, "stdout differs", {}, (old, new))
    primary = primary_of(found)
    assert primary is not None and (primary.issue, primary.path, primary.line) == ("stdout differs", "a.cu", 7)
    assert primary.why and primary.fix
    assert primary_of(gates()) is None
    missing = primary_of(gates(G4="untested"))
    assert missing is not None and "compute-sanitizer" in missing.fix


def test_bounds_are_answered_from_what_was_measured_and_never_guessed() -> None:
    contract = Contract(
        bounds=(
            Bound("latency", "p99", "<", 0.008, "s"),
            Bound("latency", "mean", "<", 0.002, "s"),
            Bound("throughput", "mean", ">=", 1000.0, "items/s"),
            Bound("speedup", "mean", ">=", 2.0, "1"),
            Bound("device_memory", "max", "<=", 1e9, "B"),
        ),
        inputs=(TensorSpec("x", (4, 3)),),
    )
    hundred = [0.001] * 199 + [0.009]
    results = bound_results(contract, Measured(hundred, (), Interval(1.8, 2.1, 2.4)))
    assert [r.met for r in results] == [True, True, True, True, None]
    assert results[2].measured == pytest.approx(4 / (0.199 + 0.009) * 200)
    few = bound_results(contract, Measured(hundred[:50]))
    assert few[0].met is None and "too few" in few[0].reason
    whole = bound_results(LATENCY, Measured(spans=(0.1, 0.1), why_no_invocations="no loop"))
    assert whole[0].met is None  # two runs say nothing of a percentile


def test_peak_memory_is_what_was_held_at_one_time() -> None:
    calls = (
        Call(0, "cudaMalloc", 0, 0, bytes=100, target=1),
        Call(1, "cudaMalloc", 0, 0, bytes=50, target=2),
        Call(2, "cudaFree", 0, 0, target=1),
        Call(3, "cudaMallocAsync", 0, 0, bytes=80, target=1),
        Call(4, "cudaMallocHost", 0, 0, bytes=1000, target=9),
        Call(5, "cudaMalloc", 0, 0, bytes=500, target=3, status=2),
    )
    assert peak_memory(Trace("full", 0, 0, 0, calls)) == 150
