"""G3 under a tolerance: buffers that differ are compared by their numbers. The tracer is simulated (scripted.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from stitchcuda.analysis.contract.types import Contract, TensorSpec, Tolerance
from stitchcuda.analysis.proof.model import BY_HAND, Declared, May
from stitchcuda.gpu_validate.gates.g3_equivalence import BaselineResults, Equivalence, equivalence, observe_baseline
from stitchcuda.gpu_validate.observe.contents import kinds
from stitchcuda.gpu_validate.observe.shown import against
from stitchcuda.gpu_validate.runs import Case
from stitchcuda.gpu_validate.trace.session import TraceRequest
from stitchcuda.gpu_validate.verdict import GateResult, GateState

from tests.hub.scripted import PROJECT, changed, room

READS = "read(total // 2); read(total)"
FLOATS = changed((READS, 'bring("f", 1.0, 2.0, -4.0); bring("f", 0.5)'))
NEAR = changed(("2.0,", "2.001,"), source=FLOATS)
WRONG = changed(("2.0,", "2.1,"), source=FLOATS)
RELATIVE = Tolerance("relative", rtol=1e-2)
CONTRACT = Contract(outputs=(TensorSpec("y", (3,), "float32"), TensorSpec("sum", (1,), "float32")))
FEWER = Declared(("keep-resident",), copies=May.FEWER)


def judge(
    folder: Path,
    baseline: str,
    candidate: str,
    tolerance: Tolerance = RELATIVE,
    contract: Contract = CONTRACT,
    declared: Declared = BY_HAND,
) -> GateResult:
    return judged(folder, baseline, candidate, tolerance, contract, declared)[0].result


def judged(
    folder: Path, baseline: str, candidate: str, tolerance: Tolerance, contract: Contract, declared: Declared
) -> tuple[Equivalence, BaselineResults]:
    found = observe_baseline(
        room(folder, baseline),
        (Case(),),
        PROJECT.observe,
        tolerance,
        kinds=lambda full: kinds(full.reads, contract, [None] * len(full.reads)),
    )
    return equivalence(found, room(folder, candidate), declared), found


def test_numbers_within_the_tolerance_pass_and_the_evidence_says_how_near(tmp_path: Path) -> None:
    result = judge(tmp_path, FLOATS, NEAR)
    assert result.state is GateState.PASSED and result.evidence["compared"]["buffers"] == 2
    (buffer,) = result.evidence["buffers"]
    assert (buffer["read"], buffer["dtype"], buffer["elements"], buffer["different"]) == (1, "float32", 3, 1)
    assert 0.0009 < buffer["max_absolute"] < 0.0011 and 0.0004 < buffer["max_relative"] < 0.0006


def test_numbers_outside_of_it_fail_and_a_bitwise_contract_has_none(tmp_path: Path) -> None:
    result = judge(tmp_path, FLOATS, WRONG)
    assert result.state is GateState.FAILED and "read 1" in result.reason and "first at 1" in result.reason
    assert result.findings[0].path == "main.cu"
    bitwise = judge(tmp_path, FLOATS, NEAR, Tolerance())
    assert bitwise.state is GateState.FAILED and "buffers" not in bitwise.evidence


def test_every_read_must_agree(tmp_path: Path) -> None:
    both = changed(("0.5", "0.6"), source=NEAR)
    result = judge(tmp_path, FLOATS, both)
    assert result.state is GateState.FAILED and "read 2" in result.reason


def test_an_unknown_type_is_asked_for(tmp_path: Path) -> None:
    result = judge(tmp_path, FLOATS, NEAR, contract=Contract())
    assert result.state is GateState.INCONCLUSIVE and '"output is float32"' in result.reason


def test_whole_numbers_under_a_tolerance_must_be_equal(tmp_path: Path) -> None:
    count = changed((READS, 'bring("i", 1000000)'))
    contract = Contract(outputs=(TensorSpec("n", (1,), "int32"),))
    more = changed(("1000000", "1000001"), source=count)
    assert judge(tmp_path, count, more, contract=contract).state is GateState.FAILED


def test_the_best_class_of_every_row(tmp_path: Path) -> None:
    logits = changed((READS, 'bring("f", 1, 9, 3,  4, 8, 2)'))
    contract = Contract(outputs=(TensorSpec("logits", ("n", 3), "float32"),))
    top = Tolerance("top_k", k=1)
    same = changed(("1, 9, 3,  4, 8, 2", "2, 7, 3,  5, 7, 1"), source=logits)
    other = changed(("4, 8, 2", "4, 2, 8"), source=logits)
    assert judge(tmp_path, logits, same, top, contract).state is GateState.PASSED
    assert judge(tmp_path, logits, other, top, contract).state is GateState.FAILED
    unknown = Contract(outputs=(TensorSpec("output", None, "float32"),))
    assert judge(tmp_path, logits, same, top, unknown).state is GateState.INCONCLUSIVE


NOISY = changed((READS, 'bring("f", 100 + random.random(), 1.0)'))


def test_a_buffer_that_varies_in_the_original_is_compared_all_the_same(tmp_path: Path) -> None:
    contract = Contract(outputs=(TensorSpec("y", (2,), "float32"),))
    assert judge(tmp_path, NOISY, changed(("100 +", "100.5 +"), source=NOISY), Tolerance("relative", rtol=3e-2), contract).state is GateState.PASSED  # fmt: skip
    wrong = changed(("1.0)", "1.2)"), source=NOISY)
    result = judge(tmp_path, NOISY, wrong, Tolerance("relative", rtol=3e-2), contract)
    assert result.state is GateState.FAILED and "first at 1" in result.reason


def test_a_version_that_copies_less_is_held_against_the_last_of_that_size(tmp_path: Path) -> None:
    twice = changed(('bring("f", 0.5)', 'bring("f", 2.0, 1.0, 5.0)'), source=FLOATS)
    last = changed((READS, 'bring("f", 2.001, 1.0, 5.0)'))
    assert judge(tmp_path, twice, last, declared=FEWER).state is GateState.PASSED
    stale = changed((READS, 'bring("f", 1.0, 2.001, -4.0)'))
    assert judge(tmp_path, twice, stale, declared=FEWER).state is GateState.INCONCLUSIVE


def test_poisoned_memory_shows_in_numbers_too(tmp_path: Path) -> None:
    lucky = changed(("2.0,", "2.001 + 5 * poison,"), source=FLOATS)
    result = judge(tmp_path, FLOATS, lucky)
    assert result.state is GateState.FAILED and "poisoned memory" in result.reason


def test_a_timed_run_may_bring_what_was_found_near_and_nothing_else(tmp_path: Path) -> None:
    found = observe_baseline(
        room(tmp_path, FLOATS),
        (Case(),),
        PROJECT.observe,
        RELATIVE,
        kinds=lambda full: kinds(full.reads, CONTRACT, [None] * len(full.reads)),
    )
    expected = found.observed[0].expected
    timed = TraceRequest("timing", operations=True)
    early = against(expected, room(tmp_path, NEAR).run(timed), BY_HAND, timed=True)
    assert early.unknown and not early.failures
    assert equivalence(found, room(tmp_path, NEAR), BY_HAND).result.state is GateState.PASSED
    late = against(expected, room(tmp_path, NEAR).run(timed), BY_HAND, timed=True)
    assert not late.unknown and not late.failures and late.counts["buffers"] == 2
    other = against(expected, room(tmp_path, WRONG).run(timed), BY_HAND, timed=True)
    assert other.unknown


def test_contents_of_many_cases_take_only_so_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stitchcuda.gpu_validate.gates.g3_equivalence._KEPT", 15)
    result = judge(tmp_path, FLOATS, NEAR)
    assert result.state is GateState.INCONCLUSIVE and "were not kept" in result.reason


def test_no_trace_that_is_kept_holds_contents(tmp_path: Path) -> None:
    done, found = judged(tmp_path, FLOATS, NEAR, RELATIVE, CONTRACT, BY_HAND)
    assert done.full is not None and all(read.contents is None for read in done.full.reads)
    assert all(
        r.contents is None for o in found.observed for run in o.runs for r in (run.trace.reads if run.trace else ())
    )
