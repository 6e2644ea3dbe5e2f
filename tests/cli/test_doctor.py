"""`stitchcuda doctor` on this machine and on made-up ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from stitchcuda.gpu_validate import capabilities
from stitchcuda.gpu_validate.toolchain import ask
from stitchcuda.server.cli.dispatch import main

from tests.llm.answers import fail, say_json
from tests.llm.endpoint import ScriptedEndpoint

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
    assert "missing  nvcc" in out and "needed for building versions (without it" in out
    assert "CUDA_HOME: /x/bin/nvcc does not exist" in out


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "STITCHCUDA_LLM_URL",
        "STITCHCUDA_LLM_MODEL",
        "STITCHCUDA_LLM_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def endpoint(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main(["doctor", "--format", "json"]) == 0
    out = capsys.readouterr().out
    assert "canary" not in out
    (found,) = (c for c in json.loads(out)["capabilities"] if c["name"] == "endpoint")
    assert isinstance(found, dict)
    return found


def test_keys_are_never_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedEndpoint([say_json({"ready": True})], key="canary-key-1") as there:
        monkeypatch.setenv("OPENAI_API_KEY", "canary-key-1")
        monkeypatch.setenv("OPENAI_BASE_URL", there.url)
        found = endpoint(capsys)
        assert found["found"] and found["version"] == "coder" and there.url in str(found["where"])
        assert main(["doctor"]) == 0
        assert "canary" not in capsys.readouterr().out
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:canary-password@localhost:8000/v1?key=canary-query")
    found = endpoint(capsys)
    assert not found["found"] and "OPENAI_BASE_URL" in str(found["problem"])


def test_an_endpoint_is_tried_without_sources(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.cu").write_text("__global__ void canary_kernel() {}")
    with ScriptedEndpoint([say_json({"ready": True})], rejects=("response_format",)) as there:
        monkeypatch.setenv("STITCHCUDA_LLM_URL", there.url)
        found = endpoint(capsys)
        assert found["found"] and "no structured replies" in str(found["where"]) and "no key set" in str(found["where"])
        assert "canary" not in there.sent and there.left == 0


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (ScriptedEndpoint(key="another-key"), "does not take the key"),
        (ScriptedEndpoint(models=("a", "b")), "it has no model coder; it has a, b"),
        (ScriptedEndpoint([fail(500)] * 2), "answers 500"),
        (ScriptedEndpoint(models_answer=fail(404), apis=()), "answers 404"),
    ],
)
def test_what_is_wrong_with_an_endpoint(
    there: ScriptedEndpoint, expected: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with there:
        monkeypatch.setenv("STITCHCUDA_LLM_URL", there.url)
        monkeypatch.setenv("STITCHCUDA_LLM_MODEL", "coder")
        monkeypatch.setenv("STITCHCUDA_LLM_KEY", "canary-key-1")
        found = endpoint(capsys)
    assert not found["found"] and expected in str(found["problem"]) and found["costs"]


def test_an_endpoint_that_is_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ScriptedEndpoint()
    with gone:
        pass
    monkeypatch.setenv("STITCHCUDA_LLM_URL", gone.url)
    assert "no connection" in str(endpoint(capsys)["problem"])


def test_none_is_configured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "none is configured" in str(endpoint(capsys)["problem"])
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key-1")
    assert "alone names none" in str(endpoint(capsys)["problem"])


def test_an_endpoint_of_the_workspace_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedEndpoint([say_json({"ready": True})]) as there:
        Path("stitchcuda.toml").write_text(f'[llm]\nbase_url = "{there.url}"\n')
        found = endpoint(capsys)
        assert not found["found"] and "not agreed" in str(found["problem"]) and not there.all_requests


@pytest.mark.skipif(sys.platform == "win32", reason="the made-up program is a shell script")
def test_a_program_that_hangs_costs_its_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "node"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(capabilities, "ask", lambda command, seconds=0.0: ask(command, 0.2))
    node = next(capability for capability in capabilities.probe() if capability.name == "node")
    assert node.found and node.problem == "no answer in 0.2 s"
