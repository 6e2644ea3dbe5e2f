"""Verdicts on a real GPU: a guarded staging buffer, a program against itself, and programs that misbehave."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.nvcc]

PROGRAMS = Path(__file__).parent / "programs"
WAIT = "        CHECK(cudaStreamSynchronize(stream));\n"
TOML = '[run]\ntimeout = 4\n\n[observe]\nignore = ["took .*"]\n'


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def program(folder: Path, text: str) -> Path:
    """A folder with one source file."""
    folder.mkdir()
    (folder / "main.cu").write_text(text, encoding="utf-8")
    (folder / "stitchcuda.toml").write_text(TOML, encoding="utf-8")
    return folder


def validate(baseline: Path, candidate: Path, *words: str) -> tuple[int, Any]:
    """Exit code and verdict of the command."""
    before = {
        p: hashlib.sha256(p.read_bytes()).digest() for d in (baseline, candidate) for p in d.rglob("*") if p.is_file()
    }
    command = [sys.executable, "-m", "stitchcuda.server.cli", "validate", str(baseline), str(candidate)]
    done = subprocess.run(
        [*command, "--format", "json", "--progress", "none", *words], check=False, capture_output=True, timeout=300
    )
    after = {
        p: hashlib.sha256(p.read_bytes()).digest() for d in (baseline, candidate) for p in d.rglob("*") if p.is_file()
    }
    assert before == after, "the sources are as they were"
    assert done.returncode in (0, 1), done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


def states(verdict: Any) -> dict[str, str]:
    return {g["gate"]: g["state"] for g in verdict["gates"]}


def reason(verdict: Any, gate: str) -> str:
    return next(str(g["reason"]) for g in verdict["gates"] if g["gate"] == gate)


def test_the_wait_that_guards_a_staging_buffer_is_missed_by_proof_and_by_delays(tmp_path: Path) -> None:
    text = (PROGRAMS / "staging.cu").read_text(encoding="utf-8")
    assert text.count(WAIT) == 1
    baseline = program(tmp_path / "baseline", text)
    candidate = program(tmp_path / "candidate", text.replace(WAIT, ""))
    code, verdict = validate(baseline, candidate, "--all-gates", "--delays", "--runs", "8")
    print(json.dumps(verdict, indent=1))
    assert (code, verdict["state"]) == (1, "rejected")
    assert states(verdict)["G1"] == "failed" and states(verdict)["G3"] == "failed"


def test_a_program_against_itself_is_neither_accepted_nor_rejected(tmp_path: Path) -> None:
    text = (PROGRAMS / "well_behaved.cu").read_text(encoding="utf-8")
    code, verdict = validate(program(tmp_path / "a", text), program(tmp_path / "b", text), "--runs", "8")
    print(json.dumps(verdict, indent=1))
    assert (code, verdict["state"]) == (1, "unproven")
    assert states(verdict)["G3"] == "passed" and states(verdict)["G6"] == "inconclusive"


GUARD = "int main() {\n"
HANG = "#include <csignal>\n#include <unistd.h>\n"
MISBEHAVING: dict[str, tuple[Callable[[str], str], str, str | None]] = {
    "does not compile": (lambda t: t.replace("int i = blockIdx", "int i = undeclared + blockIdx"), "G2", "failed"),
    "hangs on the host": (lambda t: HANG + t.replace(GUARD, GUARD + "    for (;;) usleep(1000);\n"), "G3", "failed"),
    "hangs on the device": (
        lambda t: t.replace("values[i] *= factor;", "while (*(volatile float*)&values[i] >= 0) {}"),
        "G3",
        "failed",
    ),
    "ignores SIGTERM": (
        lambda t: HANG + t.replace(GUARD, GUARD + "    signal(SIGTERM, SIG_IGN);\n    for (;;) usleep(1000);\n"),
        "G3",
        "failed",
    ),
    "leaves a child": (
        lambda t: HANG + t.replace(GUARD, GUARD + "    if (fork() == 0) { setsid(); for (;;) usleep(1000); }\n"),
        "G3",
        None,  # whatever it is found to be, nothing of it lives on
    ),
    "crashes": (lambda t: t.replace(GUARD, GUARD + "    *(volatile int*)nullptr = 1;\n"), "G3", "failed"),
    "reads out of bounds": (lambda t: t.replace("values[i] *=", "values[i + (1 << 28)] *="), "G3", "failed"),
    "prints nothing and copies nothing": (
        lambda t: "\n".join(line for line in t.splitlines() if "printf(" not in line and "DeviceToHost" not in line),
        "G3",
        "failed",
    ),
    "writes 10 GB": (
        lambda t: t.replace(
            GUARD,
            GUARD
            + '    FILE* f = std::fopen("big.bin", "w");\n    char* block = new char[1 << 24]();\n'
            + "    for (int k = 0; k < 640; ++k) std::fwrite(block, 1, 1 << 24, f);\n    std::fclose(f);\n",
        ),
        "G3",
        "failed",
    ),
}


@pytest.mark.parametrize("how", MISBEHAVING)
def test_a_version_that_misbehaves_gets_a_clear_verdict_and_leaves_nothing(tmp_path: Path, how: str) -> None:
    change, gate, state = MISBEHAVING[how]
    text = (PROGRAMS / "well_behaved.cu").read_text(encoding="utf-8")
    changed = change(text)
    assert changed != text
    begun = time.monotonic()
    code, verdict = validate(
        program(tmp_path / "baseline", text), program(tmp_path / "candidate", changed), "--runs", "8"
    )
    print(how, f"{time.monotonic() - begun:.1f} s", states(verdict), reason(verdict, gate), verdict["primary"])
    assert code == 1
    if state is not None:
        assert verdict["state"] == "rejected" and states(verdict)[gate] == state and reason(verdict, gate)
    assert _left(tmp_path) == []
    after = validate(tmp_path / "baseline", tmp_path / "baseline", "--runs", "8")[1] if "device" in how else None
    assert after is None or after["state"] == "unproven", "the GPU still works"


def _left(folder: Path) -> list[str]:
    """Processes that run from below the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            program_file = (process / "exe").readlink()
        except OSError:
            continue
        if program_file.is_relative_to(folder):
            found.append(str(program_file))
    return found
