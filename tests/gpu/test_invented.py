"""A model's fused kernel for `examples/vit`, from the request to the measured gain over what the rules reach. The model is an
endpoint with scripted replies (tests/llm/endpoint.py); the hub is real."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.server.cli.dispatch import main

from tests.llm.answers import say_json
from tests.llm.endpoint import ScriptedEndpoint

VIT = Path(__file__).parents[2] / "examples" / "vit"
PROJECT = tomllib.loads((VIT / "stitchcuda.toml").read_text())
COMMANDS = (PROJECT["build"]["command"], PROJECT["run"]["command"])
PARAMETERS = """const float* input, const float* weight0, const float* bias0, float* output0,
                                     const float* weight1, const float* bias1, float* output1,
                                     const float* weight2, const float* bias2, float* output2,
                                     int rows, int inputs, int outputs"""
PLAN = {
    "done": False,
    "summary": "Compute query, key and value in one launch: each of the three alone fills a third of the GPU",
    "steps": [
        "Move the body of linear_kernel into a device function that both kernels can call",
        "Add linear_triple_kernel, whose grid's z names the layer",
        "Launch it once in attention_block instead of calling linear three times",
    ],
    "expected_bottleneck": "the large linear layers of the MLP",
    "risks": ["none for the values: every output is computed by the same operations in the same sequence"],
    "constraints": ["the order of additions in a tile must stay"],
    "targets": ["attention_block", "kernels.cu", "kernels.h"],
}
DONE: dict[str, object] = {**{k: [] for k in ("steps", "risks", "constraints", "targets")}, "expected_bottleneck": ""}
DONE |= {"done": True, "summary": "what is left is the arithmetic of the large linear layers"}


def fused() -> dict[str, Any]:
    """The coder's answer: the tile as a device function, the kernel over three layers, and its launch."""
    kernels = (VIT / "kernels.cu").read_text()
    start, end = kernels.index("__global__ void linear_kernel("), kernels.index("__global__ void split_heads_kernel(")
    tile = kernels[start:end].replace("__global__ void linear_kernel(", "static __device__ void linear_tile(")
    branches = " else ".join(
        f"{{\n        linear_tile(input, weight{k}, bias{k}, output{k}, rows, inputs, outputs);\n    }}"
        if k == 2
        else f"if (blockIdx.z == {k}) {{\n        linear_tile(input, weight{k}, bias{k}, output{k}, rows, inputs, outputs);\n    }}"
        for k in range(3)
    )
    kernel = f"__global__ void linear_triple_kernel({PARAMETERS}) {{\n    {branches}\n}}\n\n"
    split = "__global__ void split_heads_kernel(const float* tokens, float* heads) {"
    comment = "// From [TOKENS][DIM] to [HEADS][TOKENS][HEAD_DIM] and back. One thread per value."
    calls = "".join(
        f"    linear(d_normed, layer.{name}_weight, layer.{name}_bias, d_{name}, TOKENS, DIM, DIM);\n"
        for name in ("query", "key", "value")
    )
    launch = """\
    dim3 triple_threads(LINEAR_THREADS_X, LINEAR_THREADS_Y);
    dim3 triple_blocks(ceil_div(DIM, LINEAR_TILE_COLUMNS), ceil_div(TOKENS, LINEAR_TILE_ROWS), 3);
    linear_triple_kernel<<<triple_blocks, triple_threads>>>(
        d_normed, layer.query_weight, layer.query_bias, d_query, layer.key_weight, layer.key_bias, d_key,
        layer.value_weight, layer.value_bias, d_value, TOKENS, DIM, DIM);
    CHECK(cudaGetLastError());
"""
    edits = [
        {"path": "kernels.cu", "anchor": split, "text": f"{tile}{kernel}{split}"},
        {
            "path": "kernels.h",
            "anchor": comment,
            "text": f"// Three linear layers of one input: the grid's z names the layer.\n"
            f"__global__ void linear_triple_kernel({PARAMETERS});\n\n{comment}",
        },
        {"path": "blocks.cu", "anchor": calls, "text": launch},
        {"path": "blocks.cu", "anchor": '#include "ops.h"\n', "text": '#include "kernels.h"\n#include "ops.h"\n'},
    ]
    return {"edits": [{"kind": "replace", **e} for e in edits], "why": PLAN["summary"]}


def stitched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[Any, int]:
    """What `stitch` prints of a copy of the example, and how many requests the model got."""
    shutil.copytree(VIT, folder / "vit")
    monkeypatch.chdir(folder)
    with ScriptedEndpoint([say_json(PLAN), say_json(fused())], then=say_json(DONE)) as endpoint:
        for name, value in (("URL", endpoint.url), ("MODEL", "scripted"), ("KEY", "key")):
            monkeypatch.setenv(f"STITCHCUDA_LLM_{name}", value)
        agreed = [word for subject in (endpoint.url, *COMMANDS) for word in ("--approve", subject)]
        how = ["--proposer", "both", "--format", "json", "--progress", "json", *agreed]
        code = main(["stitch", "vit", *how, *words])
        asked = len(endpoint.requests)
    shown = capsys.readouterr()
    assert shown.out, shown.err
    value = json.loads(shown.out)
    if where := os.environ.get("STITCHCUDA_EVIDENCE"):  # a run that is to be kept (benchmarks/results)
        Path(where, "invented.json").write_text(json.dumps(value, indent=1))
    assert code == 0, value
    return value, asked


def test_the_fused_kernel_is_proposed_on_top_of_the_rules_and_its_order_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    value, asked = stitched(tmp_path, monkeypatch, capsys, "--no-run")
    assert asked == 2 and value["outcome"] == "not_validated"
    states = [
        {g["gate"]: g["state"] for g in verdict["gates"]}
        for path in Path(value["run_dir"], "verdicts").iterdir()
        for verdict in [json.loads(path.read_text())]
    ]
    assert sorted(s["G1"] for s in states) == ["passed", "proved"]  # the model's version, the one of the rules
    assert not any("linear_triple" in e["text"] for u in value["best"]["units"] for e in by_id(value)[u]["edits"])
    assert main(["runs", "replay"]) == 0


def by_id(value: Any) -> dict[str, Any]:
    return {u["id"]: u for u in value["units"]}


@pytest.mark.gpu
@pytest.mark.nvcc
def test_the_fused_kernel_is_accepted_with_its_gain_over_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    value, _ = stitched(tmp_path, monkeypatch, capsys, "--intent", "latency below 1 ms", "--scope", "forward")
    assert "model" in [u["transform"] for u in value["units"] if u["id"] in value["best"]["units"]], value["refused"]
    states = {g["gate"]: g["state"] for g in value["verdict"]["gates"]}
    assert {g: states[g] for g in ("G0", "G1", "G2", "G3", "G4", "G6")} == dict.fromkeys(
        ("G0", "G1", "G2", "G3", "G4", "G6"), "passed"
    )
    assert main(["runs", "replay"]) == 0
