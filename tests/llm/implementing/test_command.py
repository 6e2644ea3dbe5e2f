"""`stitchcuda stitch --proposer llm` on a program with a missing kernel or host stage, with the real bench."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stitchcuda.server.cli.dispatch import main

from tests.llm.answers import say_json
from tests.llm.endpoint import ScriptedEndpoint
from tests.pure.implementing import host_programs, programs


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("text", "name", "right"),
    [(programs.program(), "saxpy", programs.RIGHT), (host_programs.program(), "scale", host_programs.RIGHT)],
)
def test_what_is_missing_is_written_and_built_with_the_reference_beside_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    name: str,
    right: str,
) -> None:
    for variable in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{variable}_HOME", str(tmp_path / variable.lower()))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "main.cu").write_text(text)
    edit = {"kind": "function", "path": "main.cu", "function": name, "text": right}
    with ScriptedEndpoint([say_json({"why": "one thread per element", "edits": [edit]})]) as endpoint:
        monkeypatch.setenv("STITCHCUDA_LLM_URL", endpoint.url)
        monkeypatch.setenv("STITCHCUDA_LLM_MODEL", "scripted")
        words = [
            "stitch",
            "p",
            "--proposer",
            "llm",
            "--approve",
            endpoint.url,
            "--format",
            "json",
            "--progress",
            "none",
        ]
        assert main(words) == 0
    value = json.loads(capsys.readouterr().out)
    states = {g["gate"]: g["state"] for g in value["verdict"]["gates"]}
    assert (states["G0"], states["G1"], states["G2"]) == ("passed", "passed", "passed")
    assert value["outcome"] in ("not_validated", "improved") and value["model"]["rounds"] == 1
    (unit,) = value["units"]
    assert {e["path"] for e in unit["edits"]} == {"p/main.cu"} and right in unit["edits"][1]["text"]
    assert (tmp_path / "p" / "main.cu").read_text() == text
