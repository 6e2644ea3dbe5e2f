"""Kernels that stand for others run exactly as often: the counts of both versions' traces against what G1 says."""

from __future__ import annotations

from pathlib import Path

import pytest
from stitchcuda.analysis.contract.types import Tolerance
from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.gpu_validate.gates.g3_equivalence import equivalence, observe_baseline
from stitchcuda.gpu_validate.observe.exchanges import Exchange, exchanges_of, plain_name, unexplained
from stitchcuda.gpu_validate.observe.work import Work, changed_work
from stitchcuda.gpu_validate.runs import Case
from stitchcuda.gpu_validate.verdict import GateResult, GateState

from tests.hub.scripted import GOOD, PROJECT, changed, project, room

DEVICE = Declared(("model",), waits=May.ANY, device=May.ANY)
FUSE = Exchange(("linear", "gelu"), ("linear_gelu",))
BEFORE = {"linear": 72, "gelu": 12, "add": 24}


@pytest.mark.parametrize(
    ("after", "exchanges"),
    [
        ({"linear": 60, "linear_gelu": 12, "add": 24}, [FUSE]),
        (BEFORE, [Exchange(("linear",), ("linear",))]),
        ({"linear": 72, "gelu_a": 12, "gelu_b": 12, "add": 24}, [Exchange(("gelu",), ("gelu_a", "gelu_b"))]),
        ({"linear": 60, "linear_gelu": 12, "linear_add": 24, "linear_left": 0}, [FUSE, Exchange(("add",), ("linear_add",))]),
        ({"linear": 36, "linear_gelu": 12, "linear_add": 24}, [FUSE, Exchange(("linear", "add"), ("linear_add",))]),
        ({"linear": 48, "linear_gelu": 12, "add": 18, "both": 6},
         [FUSE, Exchange(("linear", "linear", "add"), ("both",))]),
    ],
)  # fmt: skip
def test_exchanges_that_run_as_often(after: dict[str, int], exchanges: list[Exchange]) -> None:
    assert unexplained(BEFORE, after, exchanges) == []


@pytest.mark.parametrize(
    ("after", "exchanges"),
    [
        ({"linear": 60, "linear_gelu": 11, "add": 24}, [FUSE]),
        ({"linear": 60, "linear_gelu": 12, "add": 23}, [FUSE]),
        ({"linear": 59, "linear_gelu": 12, "add": 24}, [FUSE]),
        ({"linear": 60, "add": 24}, [FUSE]),
        ({"linear": 71, "gelu": 12, "add": 24}, [Exchange(("linear",), ("linear",))]),
        ({"linear": 84, "gelu": 24, "add": 24, "linear_gelu": 0}, [FUSE]),
        ({"linear": 72, "gelu_a": 12, "gelu_b": 11, "add": 24}, [Exchange(("gelu",), ("gelu_a", "gelu_b"))]),
        ({"linear": 60, "linear_gelu": 12, "add": 24, "extra": 1}, [FUSE]),
        ({"linear": 73, "linear_gelu": -1, "gelu": 13, "add": 24}, [FUSE]),
    ],
)
def test_exchanges_that_do_not(after: dict[str, int], exchanges: list[Exchange]) -> None:
    assert unexplained(BEFORE, after, exchanges)


def test_what_varies_in_the_baseline_says_nothing() -> None:
    baseline = [Work({"linear": 72, "gelu": 12, "poll": n}, {}, {}) for n in (3, 4)]
    found = changed_work(baseline, Work({"linear": 60, "linear_gelu": 12, "poll": 9}, {}, {}), DEVICE, [FUSE])
    assert not found.changed and not found.unknown


def test_names_of_traces_and_of_sources_are_the_same() -> None:
    assert plain_name("void ns::(anonymous namespace)::scale<float, (int)4>(float*, int)") == "scale"
    assert plain_name("scale") == plain_name("ns::scale<8>") == "scale"
    evidence = {"groups": [{"path": "a.cu", "line": 3, "before": ["ns::a", "b"], "after": ["ab<4>"]}] * 2}
    assert exchanges_of(evidence) == (Exchange(("a", "b"), ("ab",)),)
    assert exchanges_of({}) == ()


def judge(folder: Path, candidate: str, exchanges: tuple[Exchange, ...], declared: Declared = DEVICE) -> GateResult:
    settings = project("main.py", PROJECT.observe, timeout=5.0)
    found = observe_baseline(room(folder, GOOD, settings), (Case(),), PROJECT.observe, BITWISE)
    return equivalence(found, room(folder, candidate, settings), declared, exchanges=exchanges).result


BITWISE = Tolerance()


FUSED = changed(('kernel("scale"); kernel("sum", 1)', 'kernel("both")'))


def test_g3_takes_the_exchange_that_the_proof_told(tmp_path: Path) -> None:
    both = (Exchange(("scale", "sum"), ("both",)),)
    assert judge(tmp_path, FUSED, both).state is GateState.PASSED
    twice = changed(('kernel("scale"); kernel("sum", 1)', 'kernel("both"); kernel("both")'))
    result = judge(tmp_path, twice, both)
    assert result.state is GateState.FAILED and "both 2 times, in place of scale 1 times, sum 1 times" in result.reason


def test_without_a_proof_it_is_not_known_what_stands_for_what(tmp_path: Path) -> None:
    result = judge(tmp_path, FUSED, ())
    assert result.state is GateState.INCONCLUSIVE and "not known what stands for what" in result.reason


def test_fewer_runs_of_the_same_kernels_are_no_exchange(tmp_path: Path) -> None:
    """Row 11: the results are the same, and the work is not."""
    baseline = changed(('kernel("scale");', '[kernel("scale") for _ in range(100)];'))
    fewer = changed(('kernel("scale");', '[kernel("scale") for _ in range(60)];'))
    settings = project("main.py", PROJECT.observe, timeout=5.0)
    found = observe_baseline(room(tmp_path, baseline, settings), (Case(),), PROJECT.observe, BITWISE)
    result = equivalence(found, room(tmp_path, fewer, settings), DEVICE).result
    assert result.state is GateState.FAILED and "kernel scale ran 60 times, 100 in the baseline" in result.reason


def test_undeclared_other_kernels_fail(tmp_path: Path) -> None:
    result = judge(tmp_path, FUSED, (Exchange(("scale", "sum"), ("both",)),), Declared())
    assert result.state is GateState.FAILED
