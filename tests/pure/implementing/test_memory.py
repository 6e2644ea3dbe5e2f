"""The memory gate of a stage: initcheck on the version alone, the other tools on both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from stitchcuda.agent.implementing.memory import memory_of
from stitchcuda.analysis.contract.project import Project
from stitchcuda.gpu_validate.building.model import Built
from stitchcuda.gpu_validate.runs import Case
from stitchcuda.gpu_validate.tools import Builds
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState

REFERENCE, VERSION = Built("reference", Path(), None, 0.0), Built("version", Path(), None, 0.0)
TOOLS = ("memcheck", "initcheck", "racecheck", "synccheck")


def partly(asked: tuple[str, ...], *findings: GateFinding) -> GateResult:
    """What the gate says where only some tools were asked for and nothing is new."""
    rest = [t for t in TOOLS if t not in asked]
    evidence = {"tools": {t: {"new": 0} for t in asked}, "not_run": dict.fromkeys(rest, "not asked for")}
    reason = f"only a part was asked for; not run: {', '.join(rest)}"
    return GateResult("G4", GateState.UNTESTED, reason, evidence, findings)


def judged(
    answer: Callable[[str, tuple[str, ...]], GateResult], tools: tuple[str, ...] = ()
) -> tuple[GateResult, list[tuple[str, tuple[str, ...]]]]:
    asked: list[tuple[str, tuple[str, ...]]] = []

    def inner(
        builder: Builds,
        baseline: Built,
        candidate: Built,
        project: Project,
        tools: tuple[str, ...],
        case: Case,
        new_shapes: frozenset[str] | None,
        *,
        scratch: Path,
        cancelled: Callable[[], bool],
    ) -> GateResult:
        assert candidate is VERSION
        asked.append((baseline.name, tools))
        return answer(baseline.name, tools)

    gate = memory_of(inner, lambda: ("saxpy",))
    builder: Any = None
    found = gate(builder, REFERENCE, VERSION, Project(), tools, Case(), None, scratch=Path(), cancelled=lambda: False)
    return found, asked


def test_the_reference_is_not_asked_about_what_nobody_wrote() -> None:
    found, asked = judged(lambda _, wanted: partly(wanted))
    assert asked == [("reference", ("memcheck", "racecheck", "synccheck")), ("version", ("initcheck",))]
    assert found.state is GateState.PASSED and set(found.evidence["tools"]) == set(TOOLS)
    assert found.evidence["not_run"] == {}


def test_what_the_kernel_reads_unwritten_is_new_and_what_others_do_is_not() -> None:
    def says(kernel: str) -> Callable[[str, tuple[str, ...]], GateResult]:
        report = GateFinding(
            f"initcheck: Uninitialized __global__ memory read of size 4 bytes in {kernel}", "a.cu", 3, baseline=True
        )
        return lambda _, wanted: partly(wanted, *([report] if wanted == ("initcheck",) else []))

    for kernel in ("saxpy", "ns::saxpy(int, float)", "(anonymous namespace)::saxpy"):
        found, _ = judged(says(kernel))
        assert found.state is GateState.FAILED and found.reason.startswith("new report: initcheck"), kernel
        assert not found.findings[0].baseline
    for kernel in ("other", "saxpy_more"):
        found, _ = judged(says(kernel))
        assert found.state is GateState.PASSED and found.findings[0].baseline, kernel


def test_a_new_report_of_another_tool_ends_it() -> None:
    bad = GateResult("G4", GateState.FAILED, "new report: memcheck", {"tools": {}}, (GateFinding("memcheck"),))
    found, asked = judged(lambda name, wanted: bad if name == "reference" else partly(wanted))
    assert found.state is GateState.FAILED and len(asked) == 1


def test_a_tool_that_cannot_tell_is_no_pass() -> None:
    unsure = GateResult("G4", GateState.INCONCLUSIVE, "initcheck of the version was stopped", {"tools": {}})
    found, _ = judged(lambda name, wanted: unsure if name == "version" else partly(wanted))
    assert (found.state, found.reason) == (GateState.INCONCLUSIVE, "initcheck of the version was stopped")


def test_without_the_sanitizer_nothing_was_tested() -> None:
    none = GateResult("G4", GateState.UNTESTED, "compute-sanitizer is not on this machine")
    found, _ = judged(lambda *_: none)
    assert found == none


def test_a_part_that_was_asked_for_is_said_to_be_one() -> None:
    found, asked = judged(lambda _, wanted: partly(wanted), ("memcheck",))
    assert asked == [("reference", ("memcheck",))] and found.state is GateState.UNTESTED
    assert found.reason == "only a part was asked for; not run: initcheck, racecheck, synccheck"
