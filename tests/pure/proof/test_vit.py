"""The edits that the shipped example invites, and near misses of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.proof.model import Declared, May, Proof, ProofState
from stitchcuda.analysis.proof.prove import prove

VIT = Path(__file__).parents[3] / "examples" / "vit"
Texts = dict[str, str]
DECLARED = Declared(("test",), waits=May.FEWER, copies=May.FEWER, allocations=May.ANY)
WAIT = "    CHECK(cudaDeviceSynchronize());\n"
POOL = """\
    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    std::uint64_t threshold = UINT64_MAX;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
"""


@cache
def vit_texts() -> Mapping[str, str]:
    return {p.name: p.read_text() for p in sorted(VIT.iterdir()) if p.suffix in (".cu", ".cpp", ".h")}


def analysed(texts: Mapping[str, str]) -> Analysis:
    index = Index(strict=True)
    for path, text in texts.items():
        index.put(path, text.encode())
    return index.analyse()


@cache
def vit() -> Analysis:
    return analysed(vit_texts())


def proof_of(*changes: Callable[[Texts], None], declared: Declared = DECLARED) -> Proof:
    texts = dict(vit_texts())
    for change in changes:
        before = dict(texts)
        change(texts)
        assert texts != before
    return prove(vit(), analysed(texts), declared)


def without_waits(t: Texts) -> None:
    t["ops.cu"] = t["ops.cu"].replace(WAIT, "")


def pooled(t: Texts) -> None:
    for path in ("ops.cu", "blocks.cu", "forward.cu"):
        t[path] = re.sub(r"cudaMalloc\((&\w+), (.*)\)\);", r"cudaMallocAsync(\1, \2, 0));", t[path])
        t[path] = re.sub(r"cudaFree\((\w+)\)", r"cudaFreeAsync(\1, 0)", t[path])
    main = t["main.cu"].replace("#include <chrono>\n", "#include <chrono>\n#include <cstdint>\n")
    main = main.replace('#include "device_weights.h"', '#include "cuda_check.h"\n#include "device_weights.h"')
    t["main.cu"] = main.replace("    HostWeights host_weights", POOL + "    HostWeights host_weights")


def resident(t: Texts) -> None:
    """`context` and `attended` stay on the device: their maker returns the pointer, their user frees it."""
    blocks = t["blocks.cu"]
    for name, maker in (("context", "attention_block"), ("attended", "projection_block")):
        for path in ("blocks.cu", "blocks.h"):
            text = blocks if path == "blocks.cu" else t[path]
            text = text.replace(f"std::vector<float> {maker}", f"float* {maker}")
            text = text.replace(f"const std::vector<float>& {name},", f"float* d_{name},")
            if path == "blocks.cu":
                blocks = text
            else:
                t[path] = text
        blocks = re.sub(rf"    std::vector<float> {name}\(count\);\n    CHECK\(cudaMemcpy\([^;]*;\n", "", blocks)
        blocks = re.sub(rf"    CHECK\(cudaFree\w*\(d_{name}[^;]*;\n    return {name};", f"    return d_{name};", blocks)
        user = blocks.index(f"float* d_{name},")
        used = blocks[user:].replace(f"    float* d_{name} = nullptr;\n", "", 1)
        used = re.sub(rf"    CHECK\(cudaMalloc\w*\(&d_{name},[^;]*;\n", "", used, count=1)
        used = re.sub(rf"    CHECK\(cudaMemcpy\(d_{name}, {name}\.data\(\)[^;]*;\n", "", used)
        blocks = blocks[:user] + used
        t["forward.cu"] = t["forward.cu"].replace(f"std::vector<float> {name} =", f"float* {name} =")
    t["blocks.cu"] = blocks


@pytest.mark.parametrize(
    "changes", [(without_waits,), (pooled,), (resident,), (without_waits, pooled, resident)], ids=lambda c: f"{len(c)}"
)
def test_what_the_example_invites_is_proved(changes: tuple[Callable[[Texts], None], ...]) -> None:
    proof = proof_of(*changes)
    assert proof.state is ProofState.PROVED, proof.findings
    assert proof.pairs > 500
    amounts = {q.name: (q.before, q.after) for q in proof.quantities}
    assert amounts["launches"][0] == amounts["launches"][1]
    if resident in changes:
        assert amounts["device to host bytes"] == ("7266208*count", "4000*count")


def test_what_rests_on_practice_is_said() -> None:
    """Without the waits, memory is freed right behind the kernels that use it."""
    assert any("cudaFree" in what for what in proof_of(without_waits).evidence["rests_on"])  # type: ignore[attr-defined]
    assert not proof_of(without_waits, pooled).evidence["rests_on"]


def edit(path: str, old: str, new: str) -> Callable[[Texts], None]:
    def change(t: Texts) -> None:
        assert old in t[path], (path, old)
        t[path] = t[path].replace(old, new, 1)

    return change


ADD = "add_kernel<<<ceil_div(count, ELEMENT_THREADS), ELEMENT_THREADS>>>(d_left, d_right,"


@pytest.mark.parametrize(
    ("changes", "state", "what"),
    [
        ((edit("kernels.cu", "index % IMAGE_SIZE", "index / IMAGE_SIZE"),), ProofState.UNTESTED, "device code changed"),
        ((edit("model.h", "LAYERS = 12", "LAYERS = 11"),), ProofState.UNTESTED, "outside functions"),
        ((edit("ops.cu", ADD, ADD.replace("d_left, d_right", "d_right, d_left")),), ProofState.FAILED, "one buffer"),
        ((edit("forward.cu", "i < LAYERS", "i < LAYERS - 1"),), ProofState.UNTESTED, "control flow"),
        ((resident, edit("blocks.cu", "    CHECK(cudaFree(d_context));\n", "")), ProofState.FAILED, "no longer freed"),
        (
            (resident, edit("blocks.cu", "return d_context;", "CHECK(cudaFree(d_context));\n    return d_context;")),
            ProofState.FAILED,
            "freed",
        ),
        ((resident, edit("blocks.cu", "return d_attended;", "return d_projected;")), ProofState.FAILED, ""),
        (
            (pooled, edit("ops.cu", "CHECK(cudaFreeAsync(d_scores, 0));\n", "")),
            ProofState.FAILED,
            "`d_scores` is no longer freed",
        ),
        (
            (edit("blocks.cu", "CHECK(cudaMemcpy(d_context, context.data(), count * sizeof(float), cudaMemcpyHostToDevice));", ""),),
            ProofState.UNTESTED,
            "brought data to the device",
        ),
    ],
)  # fmt: skip
def test_near_misses(changes: tuple[Callable[[Texts], None], ...], state: ProofState, what: str) -> None:
    proof = proof_of(*changes)
    assert proof.state is state
    assert any(what in f.what for f in proof.findings), proof.findings


def test_what_was_not_declared_fails() -> None:
    proof = proof_of(resident, declared=Declared(("test",), allocations=May.ANY))
    assert proof.state is ProofState.FAILED
    assert {q.name for q in proof.quantities if not q.allowed} == {
        "host to device copies",
        "host to device bytes",
        "device to host copies",
        "device to host bytes",
    }
