"""`stitchcuda stitch --proposer llm` on a program with a missing kernel, with the real bench."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stitchcuda.server.cli.dispatch import main

from tests.llm.answers import say_json
from tests.llm.endpoint import ScriptedEndpoint
from tests.pure.implementing.programs import RIGHT, program


@pytest.mark.nvcc
def test_a_missing_kernel_is_written_and_built_with_the_reference_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "main.cu").write_text(program())
    edit = {"kind": "function", "path": "main.cu", "function": "saxpy", "text": RIGHT}
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
    assert {e["path"] for e in unit["edits"]} == {"p/main.cu"} and RIGHT in unit["edits"][1]["text"]
    assert (tmp_path / "p" / "main.cu").read_text() == program()
