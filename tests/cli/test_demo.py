"""`stitchcuda demo` on the shipped example, as a user sees it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from stitchcuda.agent import journal
from stitchcuda.server.cli import shipped, stitch
from stitchcuda.server.cli.dispatch import main
from stitchcuda.server.cli.errors import CannotRun

from tests.cli.made_up_machinery import MadeUp


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeUp:
    """A hub that says what it is told to, about waits that a made-up transform removes."""
    made = MadeUp(pattern=rb"cudaDeviceSynchronize\(\)\);")
    monkeypatch.setattr(stitch, "real_machinery", made.machinery)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    return made


def test_where_everything_can_run_it_shows_the_gain_beside_the_hand_tuned_version(
    made: MadeUp, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    parts = [
        "mean latency < 8 ms",
        "linear_kernel WAIT",
        "What the stitched version does",
        "calls in which the host waits",
        "remove-wait: nothing relies on this wait",
        "-    CHECK(cudaDeviceSynchronize());",
        "verdict: accepted",
        "latency    stitched 1.50 x, by hand 3.00 x: 50% of its speed (45% to 55%)",
        "Answer: improved",
        "Kept in ",
    ]
    at = [out.index(part) for part in parts]
    assert at == sorted(at)
    assert all(f"  G{gate}  " in out for gate in range(8)) and "Untested here" not in out
    expert = made.judged[-1]
    assert "slot.cu" in expert.texts and expert.root == made.requests[0].root


def test_where_nothing_can_run_it_says_what_is_untested_and_ends_with_the_proof(
    made: MadeUp, capsys: pytest.CaptureFixture[str]
) -> None:
    made.untested = ("G3", "G4", "G6")
    assert main(["demo", "--intent", "延迟低于1ms"]) == 0
    out = capsys.readouterr().out
    assert "mean latency < 1 ms" in out
    assert "Untested here: G3 (equivalence), G4 (memory and races), G6 (latency)" in out
    assert "nobody relies on it: the order of the program" in out
    assert "Answer: not_validated: a preview" in out and "by hand" not in out
    assert len(made.judged) == 1  # nothing is measured, so the hand-tuned version is not built


def test_the_copy_takes_the_change_and_the_shipped_example_stays(
    made: MadeUp, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (shipped.folder("examples") / "vit" / "ops.cu").read_bytes()
    assert main(["demo"]) == 0
    copy = journal.find(None).root
    assert str(copy) in capsys.readouterr().out
    assert main(["runs", "apply"]) == 0
    assert b"cudaDeviceSynchronize" not in (copy / "ops.cu").read_bytes()
    assert (shipped.folder("examples") / "vit" / "ops.cu").read_bytes() == before


def test_an_example_that_does_not_build_is_1(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    made.problem = "the original does not build: no C++ compiler"
    assert main(["demo"]) == 1
    assert f"Answer: failed: {made.problem}" in capsys.readouterr().out


def test_the_rules_prove_a_change_of_the_example_without_a_gpu(tmp_path: Path) -> None:
    """The real parts, in a folder of its own; nothing is built."""
    (tmp_path / "here").mkdir()
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "stitchcuda.server.cli", "demo", "--no-run"],
        check=False,
        cwd=tmp_path / "here",
        env={"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "here").iterdir())
    assert re.search(r"G1  order +proved", done.stdout) and "Answer: not_validated" in done.stdout
    waits = re.search(r"calls in which the host waits +(\d+) +(\d+)", done.stdout)
    assert waits is not None and int(waits[2]) < int(waits[1]) / 5
    assert "remove-wait" in done.stdout and "keep-resident" in done.stdout and "hoist-allocation" in done.stdout


def test_a_missing_example_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(name: str) -> Path:
        raise CannotRun(f"the folder {name!r} is missing")

    monkeypatch.setattr(shipped, "folder", missing)
    assert main(["demo"]) == 2
    assert capsys.readouterr().err == "stitchcuda: the folder 'examples' is missing\n"
