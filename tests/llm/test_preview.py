"""A preview (`--no-run`) of what a model wrote rests on the analysis alone, with the real one behind it: what a run would refuse from
the source is refused here, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stitchcuda.server.cli.dispatch import main

from tests.llm.endpoint import ScriptedEndpoint
from tests.llm.scenario import code, fix, nothing_left, plan, rewrite
from tests.llm.scripted_hub import write_program

KERNEL = """__global__ void scale(float *x, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = {};
}}"""
APPROXIMATE, EXACT = KERNEL.format("__fdividef(x[i], 0.75f)"), KERNEL.format("x[i] * 1.5f")


@pytest.mark.parametrize(
    ("intent", "refused"), [("latency", True), ("latency, fp16 allowed", False)], ids=["not-named", "named"]
)
def test_a_lower_precision_needs_the_contracts_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], intent: str, refused: bool
) -> None:
    for name in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    program = write_program(tmp_path / "p")
    first = code(rewrite("scale", APPROXIMATE))
    script = [plan(), first, *([fix(rewrite("scale", EXACT))] if refused else []), nothing_left()]
    with ScriptedEndpoint(script) as endpoint:
        monkeypatch.setenv("STITCHCUDA_LLM_URL", endpoint.url)
        monkeypatch.setenv("STITCHCUDA_LLM_MODEL", "coder")
        words = ["stitch", str(program), "--proposer", "llm", "--no-run", "--approve", endpoint.url]
        contract = {"schema": 1, "precision": [] if refused else ["fp16"]}
        (program / "stitchcuda.toml").write_text("")
        assert main([*words, "--intent", intent, "--format", "json"]) == 0
        out, err = capsys.readouterr()
        value = json.loads(out)
        assert value["contract"].get("precision", []) == contract["precision"]
        asked = [request.text for request in endpoint.requests]
    if refused:
        assert "precision is lowered: `__fdividef` (approximate functions), which the original lacks" in asked[2]
    found = {Path(file).name: json.loads(file.read_text()) for file in Path(value["run_dir"]).glob("verdicts/*.json")}
    states = [next(g["state"] for g in verdict["gates"] if g["gate"] == "G0") for verdict in found.values()]
    assert states.count("failed") == refused, err
