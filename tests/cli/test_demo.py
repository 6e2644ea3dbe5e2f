"""`stitchcuda demo` on the shipped example, as a user sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from stitchcuda.server.cli import shipped
from stitchcuda.server.cli.dispatch import main
from stitchcuda.server.cli.errors import CannotRun


def test_it_shows_the_graph_and_the_findings(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    out = capfd.readouterr().out
    assert "$ stitchcuda graph " in out and "$ stitchcuda check " in out
    assert "`layernorm_kernel` runs on the default stream" in out
    assert "[redundant-sync, " in out
    assert "Not in this version" in out
    assert out.index("$ stitchcuda check ") < out.index("Next: stitchcuda explain redundant-sync")


def test_it_works_from_any_folder_and_writes_nothing_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "stitchcuda.server.cli", "demo"],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


def test_a_missing_example_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(name: str) -> Path:
        raise CannotRun(f"the folder {name!r} is missing")

    monkeypatch.setattr(shipped, "folder", missing)
    assert main(["demo"]) == 2
    assert capsys.readouterr().err == "stitchcuda: the folder 'examples' is missing\n"
