"""Versions that a language model might propose and that cheat, through the real hub: each is rejected by the gate named for it
(docs/trust.md). One program, built and run once, serves for all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from stitchcuda.analysis.contract.project import BuildSection, Project, RunSection
from stitchcuda.analysis.contract.types import Contract, TensorSpec, Tolerance
from stitchcuda.gpu_validate.hub import Hub, HubOptions
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.verdict import GateResult, GateState, Verdict, VerdictState
from stitchcuda.gpu_validate.verdict_json import verdict_to_json
from stitchcuda.gpu_validate.version import Version

from tests.gpu import cheats

pytestmark = [pytest.mark.gpu, pytest.mark.nvcc]

SETTINGS = Project(
    build=BuildSection(command="nvcc -O2 -std=c++17 -arch=native -lineinfo -o relax relax.cu"),
    run=RunSection(command="./relax {size} {seed}", timeout=20, sizes=("4096",), seeds=(1,)),
)
CONTRACT = Contract(inputs=(TensorSpec("values", ("count",)),))  # so that a size is drawn, too
FAILED, PASSED = GateState.FAILED, GateState.PASSED


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("relax")
    (folder / "relax.cu").write_bytes(cheats.PROGRAM.read_bytes())
    scratch = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        options = HubOptions(runs=2, sanitizer=("memcheck",), scratch=scratch)
        with Hub(Version(folder), SETTINGS, CONTRACT, real_tools(), options=options) as made:
            yield made


def judged(hub: Hub, pairs: tuple[tuple[str, str], ...]) -> Verdict:
    version = hub.baseline.with_texts({"relax.cu": cheats.version(pairs)})
    verdict = hub.judge(version, cheats.DECLARED)
    print(json.dumps(verdict_to_json(verdict), indent=1))
    return verdict


def gate(verdict: Verdict, name: str) -> GateResult:
    found = verdict.gate(name)
    assert found is not None
    return found


def test_the_honest_fusion_shows_the_same(hub: Hub) -> None:
    verdict = judged(hub, cheats.HONEST)
    assert {g: gate(verdict, g).state for g in ("G0", "G1", "G2", "G3")} == dict.fromkeys(
        ("G0", "G1", "G2", "G3"), PASSED
    )
    assert verdict.state is not VerdictState.REJECTED
    assert "poisoned memory" in gate(verdict, "G3").evidence["probes"], "else nothing shows stale memory"


def test_row_3_stale_memory(hub: Hub) -> None:
    verdict = judged(hub, cheats.STALE)
    assert verdict.state is VerdictState.REJECTED and gate(verdict, "G1").state is PASSED
    assert gate(verdict, "G3").state is FAILED
    assert gate(verdict, "G3").reason.startswith("with poisoned memory")


def test_row_3_memory_that_is_provably_not_written(hub: Hub) -> None:
    verdict = judged(hub, cheats.UNWRITTEN)
    assert verdict.state is VerdictState.REJECTED and gate(verdict, "G1").state is FAILED


@pytest.mark.parametrize("pairs", [cheats.ONE_SIZE, cheats.ONE_SEED], ids=["size", "seed"])
def test_row_9_hard_coded(hub: Hub, pairs: tuple[tuple[str, str], ...]) -> None:
    verdict = judged(hub, pairs)
    assert verdict.state is VerdictState.REJECTED and gate(verdict, "G1").state is PASSED
    assert gate(verdict, "G3").state is FAILED
    assert "(drawn)" in gate(verdict, "G3").reason, "in the case that nobody could know"


def test_row_10_lower_precision_under_a_tolerance(hub: Hub) -> None:
    contract = replace(CONTRACT, tolerance=Tolerance("relative", rtol=1e-2))
    with Hub(hub.baseline, SETTINGS, contract, real_tools(), options=HubOptions(scratch=hub.scratch.parent)) as lenient:
        verdict = judged(lenient, cheats.LOWER)
    assert verdict.state is VerdictState.REJECTED and gate(verdict, "G0").state is FAILED
    assert "`__expf`" in gate(verdict, "G0").reason


def test_row_11_fewer_iterations(hub: Hub) -> None:
    verdict = judged(hub, cheats.FEWER)
    assert verdict.state is VerdictState.REJECTED and gate(verdict, "G1").state is not PASSED
    assert gate(verdict, "G3").state is FAILED
    assert "relax ran 60 times, 100 in the baseline" in gate(verdict, "G3").reason
