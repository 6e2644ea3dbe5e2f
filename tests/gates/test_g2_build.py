"""What a build says about a version; the real compilers are in tests/toolchain/test_builds.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from stitchcuda.gpu_validate.building.model import BuildFailed, Built, Diagnostic, Resources
from stitchcuda.gpu_validate.gates.g2_build import g2
from stitchcuda.gpu_validate.verdict import GateState

KERNEL = Resources(registers=10, stack=0, shared=256, spilled=0, code="a")
ORIGINAL = Built("0", Path(), None, 1.0, resources={"f": KERNEL, "gone": KERNEL}, device_code="x", program_digest="p")


def test_what_kernels_take_is_compared() -> None:
    fatter = Resources(registers=64, stack=16, shared=256, spilled=8, code="b")
    result = g2(ORIGINAL, Built("1", Path(), None, 1.0, resources={"f": fatter, "new": KERNEL}, device_code="y"))
    assert result.state is GateState.PASSED
    assert result.evidence["resources"] == {
        "f": {"registers": [10, 64], "stack": [0, 16], "spilled": [0, 8]},
        "gone": {"only_in_baseline": {"registers": 10, "stack": 0, "shared": 256, "spilled": 0}},
        "new": {"only_in_candidate": {"registers": 10, "stack": 0, "shared": 256, "spilled": 0}},
    }


def test_a_program_that_did_not_change_is_told() -> None:
    assert g2(ORIGINAL, ORIGINAL).evidence["program"] == "byte for byte the original's"


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        (ORIGINAL, BuildFailed("wrong", (Diagnostic("error", "wrong", "a.cu", 3),)), GateState.FAILED),
        (ORIGINAL, BuildFailed("stopped", limit="seconds"), GateState.INCONCLUSIVE),
        (ORIGINAL, BuildFailed("no nvcc", missing_tool=True), GateState.UNTESTED),
        (ORIGINAL, BuildFailed("wrong", of_baseline=True), GateState.INCONCLUSIVE),
        (BuildFailed("wrong"), ORIGINAL, GateState.INCONCLUSIVE),
        (BuildFailed("no nvcc", missing_tool=True), BuildFailed("no nvcc", missing_tool=True), GateState.UNTESTED),
    ],
)
def test_only_the_versions_own_errors_fail_it(
    before: Built | BuildFailed, after: Built | BuildFailed, state: GateState
) -> None:
    result = g2(before, after)
    assert result.state is state and result.reason
    assert [(f.what, f.path, f.line) for f in result.findings] == (
        [("wrong", "a.cu", 3)] if state is GateState.FAILED else []
    )
