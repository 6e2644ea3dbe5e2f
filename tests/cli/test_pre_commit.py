"""The hooks for pre-commit: run by pre-commit itself, on commits of a real repository.

Only the environment differs from a user's: pre-commit would install stitchcuda into one of its own, here the one under test is on PATH.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_changed_since import commit, git
from tests.cli.test_check import CLEAN, RACE, put

ROOT = Path(__file__).parents[2]
Run = Callable[..., tuple[int, str]]


def hooks() -> list[dict[str, Any]]:
    """As pre-commit reads them."""
    from pre_commit.clientlib import load_manifest

    loaded: list[dict[str, Any]] = load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))
    return loaded


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs one hook on what is staged: exit code and output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path.parent / f"{tmp_path.name}-cache"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    git("init", "-q")
    wanted = ("id", "name", "entry", "args", "pass_filenames", "files", "require_serial")
    local = [{**{k: hook[k] for k in wanted}, "language": "system"} for hook in hooks()]
    put(".pre-commit-config.yaml", json.dumps({"repos": [{"repo": "local", "hooks": local}]}))  # JSON is YAML

    def run(hook: str) -> tuple[int, str]:
        git("add", "-A")
        command = [sys.executable, "-m", "pre_commit", "run", hook]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def test_both_are_valid_and_say_how_to_run() -> None:
    found = {hook["id"]: hook for hook in hooks()}
    assert set(found) == {"stitchcuda", "stitchcuda-changed"}
    assert all(hook["language"] == "python" and not hook["pass_filenames"] for hook in found.values())


def test_a_hazard_stops_the_commit(commits: Run) -> None:
    put("src/a.cu")
    code, out = commits("stitchcuda")
    assert code == 1 and "src/a.cu:12:18: error: `consume` on stream `b` reads `x`" in out
    put("src/a.cu", CLEAN)
    code, out = commits("stitchcuda")
    assert (code, "Passed" in out) == (0, True), out


def test_the_whole_program_is_understood(commits: Run) -> None:
    """What is committed is one file; the hazard takes another one."""
    head, main = RACE.split("int main() {")
    put("step.cuh", "#pragma once\n" + head + "void step(float* x, float* y, cudaStream_t a, cudaStream_t b);\n")
    lines = [line for line in main.splitlines() if "<<<" not in line]
    at = lines.index("    cudaDeviceSynchronize();")
    put("main.cu", '#include "step.cuh"\nint main() {' + "\n".join([*lines[:at], "    step(x, y, a, b);", *lines[at:]]))
    commit()
    put(
        "step.cu",
        '#include "step.cuh"\nvoid step(float* x, float* y, cudaStream_t a, cudaStream_t b) {\n'
        "    produce<<<1, 256, 0, a>>>(x);\n    consume<<<1, 256, 0, b>>>(x, y);\n}\n",
    )
    code, out = commits("stitchcuda-changed")
    assert code == 1 and "step.cu:4:5: error" in out


def test_only_the_lines_of_the_commit(commits: Run) -> None:
    put("old.cu", RACE)
    put("notes.txt", "hello")
    commit()
    put("notes.txt", "hello again")
    assert "Skipped" in commits("stitchcuda-changed")[1]
    put("new.cu", CLEAN)
    assert commits("stitchcuda-changed")[0] == 0
    put("new.cu", RACE)
    code, out = commits("stitchcuda-changed")
    assert code == 1 and "new.cu" in out and "old.cu" not in out


def test_the_first_commit(commits: Run) -> None:
    put("a.cu", RACE)
    code, out = commits("stitchcuda-changed")
    assert code == 1 and "a.cu:12:18" in out
