"""`stitchcuda doctor` on this machine and on made-up ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from stitchcuda.gpu_validate import capabilities
from stitchcuda.gpu_validate.toolchain import ask
from stitchcuda.server.cli.dispatch import main

NAMES = ["nvcc", "gpu", "cupti", "compute-sanitizer", "cupy", "openai", "endpoint", "nvim", "code", "node"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == 1
    assert [capability["name"] for capability in report["capabilities"]] == NAMES
    for capability in report["capabilities"]:
        assert set(capability) == {"name", "found", "version", "where", "costs", "problem"}
        assert capability["costs"]


def test_text_says_what_is_missing_and_what_that_costs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(capabilities, "find_nvcc", lambda setting: (None, "CUDA_HOME: /x/bin/nvcc does not exist"))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "missing  nvcc" in out and "not available: building candidates" in out
    assert "CUDA_HOME: /x/bin/nvcc does not exist" in out


def test_keys_are_never_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:canary-password@localhost:8000/v1?key=canary-query")
    for arguments in (["doctor"], ["doctor", "--format", "json"]):
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert "http://localhost:8000/v1" in out and "canary" not in out


@pytest.mark.skipif(sys.platform == "win32", reason="the made-up program is a shell script")
def test_a_program_that_hangs_costs_its_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "node"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(capabilities, "ask", lambda command, seconds=0.0: ask(command, 0.2))
    node = next(capability for capability in capabilities.probe() if capability.name == "node")
    assert node.found and node.problem == "no answer in 0.2 s"
