"""The cheats of `tests/gpu/test_cheats.py` as far as they can be told without a GPU: by the proof, by the text, and with the
simulated tracer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from stitchcuda.analysis.contract.types import Contract, TensorSpec, Tolerance
from stitchcuda.analysis.proof.prove import prove
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.gates.g1_order import g1
from stitchcuda.gpu_validate.gates.g3_equivalence import equivalence, observe_baseline
from stitchcuda.gpu_validate.gates.lowered_precision import with_precision
from stitchcuda.gpu_validate.primary import primary_of
from stitchcuda.gpu_validate.runs import Case, cases
from stitchcuda.gpu_validate.verdict import GateResult, GateState
from stitchcuda.gpu_validate.version import Version

from tests.gpu import cheats
from tests.hub.scripted import GOOD, PROJECT, changed, project, room

NEAR = Tolerance("relative", rtol=0.5)
LEFT_BEHIND = ("read(total)", 'read(total if os.environ["SCRIPT_POISON"] == "0" else "what an earlier run left")')


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Version:
    folder = tmp_path_factory.mktemp("relax")
    (folder / "relax.cu").write_bytes(cheats.PROGRAM.read_bytes())
    return Version(folder)


def version(original: Version, pairs: tuple[tuple[str, str], ...]) -> Version:
    return original.with_texts({"relax.cu": cheats.version(pairs)})


@pytest.mark.parametrize("name", ["HONEST", "STALE", "ONE_SIZE", "ONE_SEED", "LOWER"])
def test_what_runs_must_show_gets_past_the_proof(original: Version, name: str) -> None:
    result = g1(prove(analyse(original), analyse(version(original, getattr(cheats, name))), cheats.DECLARED))
    assert result.state is GateState.PASSED, result.reason
    assert result.evidence["groups"] and result.evidence["declared"]["device"] == "any"


def test_fewer_iterations_do_not(original: Version) -> None:
    result = g1(prove(analyse(original), analyse(version(original, cheats.FEWER)), cheats.DECLARED))
    assert result.state is GateState.UNTESTED and "`STEPS`" in result.reason


def test_memory_that_is_provably_not_written_fails_the_proof(original: Version) -> None:
    result = g1(prove(analyse(original), analyse(version(original, cheats.UNWRITTEN)), cheats.DECLARED))
    assert result.state is GateState.FAILED and "leaves `result` unwritten" in result.reason


def test_row_10_fails_by_its_text_alone(original: Version) -> None:
    lower = version(original, cheats.LOWER)
    for contract in (Contract(), Contract(tolerance=NEAR)):
        passed = GateResult("G0", GateState.PASSED)
        result = with_precision(passed, analyse(original), analyse(lower), (original, lower), contract)
        assert result.state is GateState.FAILED and "`__expf`" in result.reason
    honest = version(original, cheats.HONEST)
    fine = with_precision(passed, analyse(original), analyse(honest), (original, honest), Contract())
    assert fine.state is GateState.PASSED


def judge(
    folder: Path, baseline: str, candidate: str, tolerance: Tolerance, runs: tuple[Case, ...] = (Case(),)
) -> GateResult:
    settings = project("main.py {size} {seed}" if runs[0].size else "main.py", PROJECT.observe, timeout=5.0)
    found = observe_baseline(room(folder, baseline, settings), runs, PROJECT.observe, tolerance)
    return equivalence(found, room(folder, candidate, settings), cheats.DECLARED).result


@pytest.mark.parametrize("tolerance", [Tolerance(), NEAR], ids=["bitwise", "within a tolerance"])
def test_row_3_stale_memory_fails_under_poison(tmp_path: Path, tolerance: Tolerance) -> None:
    """Also where the buffers are compared by digest alone, of which a tolerance can say nothing."""
    result = judge(tmp_path, GOOD, changed(LEFT_BEHIND), tolerance)
    assert result.state is GateState.FAILED and result.reason.startswith("with poisoned memory")


def test_row_3_is_not_said_of_a_version_that_differs_anyway(tmp_path: Path) -> None:
    """Within a tolerance that nothing can be said about, poison says nothing more."""
    other = changed(("read(total)", "read(total + 1)"))
    assert judge(tmp_path, GOOD, other, NEAR).state is GateState.INCONCLUSIVE


def test_row_3_nor_where_the_original_does_it(tmp_path: Path) -> None:
    result = judge(tmp_path, changed(LEFT_BEHIND), changed(LEFT_BEHIND), NEAR)
    assert result.state is GateState.PASSED and result.evidence["probes"] == []


@pytest.mark.parametrize(
    "edit",
    [
        ("total = sum(range(int(size))) * int(seed)", "total = sum(range(8)) * int(seed)"),
        ("total = sum(range(int(size))) * int(seed)", "total = sum(range(int(size))) * 1"),
        ("total = sum(range(int(size))) * int(seed)", "total = 28"),
    ],
    ids=["size", "seed", "output"],
)
def test_row_9_meets_what_it_cannot_know(tmp_path: Path, edit: tuple[str, str]) -> None:
    contract = Contract(inputs=(TensorSpec("x", ("n",)),))
    base = project("main.py {size} {seed}", PROJECT.observe, timeout=5.0)
    asked = replace(base, run=replace(base.run, sizes=("8",), seeds=(1,)))
    result = judge(tmp_path, GOOD, changed(edit), Tolerance(), cases(asked, contract))
    assert result.state is GateState.FAILED and "(drawn)" in result.reason


def test_the_primary_issue_of_other_launches_says_what_they_must_do(original: Version) -> None:
    missing = g1(prove(analyse(original), analyse(version(original, cheats.UNWRITTEN)), cheats.DECLARED))
    fewer = g1(prove(analyse(original), analyse(version(original, cheats.FEWER)), cheats.DECLARED))
    for result, fix in ((missing, "write it in the new launches"), (fewer, "keep the host's code")):
        gates = [GateResult("G0", GateState.PASSED), result]
        primary = primary_of(gates)
        assert primary is not None and fix in primary.fix and "touch nothing else" in primary.why
