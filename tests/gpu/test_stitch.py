"""`stitchcuda stitch` and `runs` with the real parts, on a small program."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.server.cli.dispatch import main

PROGRAM = Path(__file__).parent / "programs" / "smooth.cu"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the program in `p`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("p").mkdir()
    shutil.copy(PROGRAM, "p")
    return tmp_path


def stitched(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    code = main(["stitch", "p", "--format", "json", "--progress", "none", *words])
    value = json.loads(capsys.readouterr().out)
    assert code == (1 if value["outcome"] == "failed" else 0)
    return value


def states(value: Any) -> dict[str, str]:
    return {g["gate"]: g["state"] for g in value["verdict"]["gates"]}


@pytest.mark.nvcc
def test_a_version_is_built_where_there_is_a_compiler(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = stitched(capsys)
    assert value["units"] and {k: states(value)[k] for k in ("G0", "G1", "G2")} == {
        "G0": "passed",
        "G1": "proved",
        "G2": "passed",
    }
    assert value["outcome"] in ("not_validated", "improved")
    assert main(["runs", "replay"]) == 0


@pytest.mark.nvcc
def test_an_original_that_does_not_compile_is_told_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path("p/smooth.cu")
    path.write_text(path.read_text().replace("int step = 0;", "int step = nowhere;"))
    value = stitched(capsys)
    assert value["outcome"] == "failed" and "nowhere" in value["reason"] and not value["units"]


@pytest.mark.gpu
@pytest.mark.nvcc
def test_a_faster_version_is_accepted_written_and_taken_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("p/smooth.cu").read_bytes()
    value = stitched(capsys, "--intent", "make it 1.05 times as fast", "--write")
    assert value["outcome"] in ("improved", "bounds_met"), value["reason"]
    assert value["verdict"]["state"] == "accepted" and states(value)["G3"] == "passed"
    assert max(low for low, _, _ in value["verdict"]["speedup"].values()) > 1.05
    assert Path("p/smooth.cu").read_bytes() != before
    assert main(["runs", "revert"]) == 0 and Path("p/smooth.cu").read_bytes() == before


@pytest.mark.gpu
@pytest.mark.nvcc
def test_a_bound_out_of_reach_is_answered_with_the_distance(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = stitched(capsys, "--intent", "latency below 1 us")
    assert value["outcome"] == "best_effort" and "is not met: measured" in value["reason"]
    assert value["question"]["field"] == "bounds[0]" and value["units"]
