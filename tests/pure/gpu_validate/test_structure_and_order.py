"""Gates G0 and G1, and the analysis of a version that they compare."""

from __future__ import annotations

from pathlib import Path

from stitchcuda.analysis.proof.model import Declared, May, Proof, ProofFinding, ProofState, Quantity
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.gates.g0_structure import g0
from stitchcuda.gpu_validate.gates.g1_order import g1
from stitchcuda.gpu_validate.verdict import GateFinding, GateState
from stitchcuda.gpu_validate.version import Version

RACE = b"""\
#include "work.h"
int main() {
    float* p;
    float h[256];
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaMallocHost(&p, 1024);
    fill<<<1, 256, 0, s>>>(p);
    cudaStreamSynchronize(s);
    h[0] = p[0];
    return (int)h[0];
}
"""
WORK = b"__global__ void fill(float* p) { p[threadIdx.x] = 1; }\n"


def tree(folder: Path) -> Version:
    (folder / "a.cu").write_bytes(RACE)
    (folder / "work.h").write_bytes(WORK)
    (folder / "build").mkdir()
    (folder / "build" / "made.cu").write_bytes(b"int main() {}")
    (folder / "notes.txt").write_bytes(b"no source")
    (folder / "plain.py").write_bytes(b"import os\n")
    return Version(folder)


def test_a_version_is_its_tree_with_texts_replaced(tmp_path: Path) -> None:
    version = tree(tmp_path)
    assert sorted(analyse(version).sources) == ["a.cu", "work.h"]
    changed = version.with_texts({"a.cu": RACE.replace(b"h[0] = p[0]", b"h[0] = p[1]"), "more/b.cu": b"void f() {}\n"})
    assert sorted(analyse(changed).sources) == ["a.cu", "more/b.cu", "work.h"]
    assert b"p[1]" in analyse(changed).sources["a.cu"]
    assert analyse(changed) is analyse(changed)  # kept
    assert (tmp_path / "a.cu").read_bytes() == RACE


def test_a_single_file_brings_what_it_includes(tmp_path: Path) -> None:
    tree(tmp_path)
    assert sorted(analyse(Version(tmp_path / "a.cu")).sources) == ["a.cu", "work.h"]


def test_what_is_too_large_is_told(tmp_path: Path) -> None:
    version = tree(tmp_path)
    (tmp_path / "huge.cu").write_bytes(b"//" + b" " * (5 * 1024 * 1024))
    found = analyse(version)
    assert "huge.cu" not in found.sources
    assert any(p.path == "huge.cu" and "4 MiB" in p.what for p in found.problems)


def test_g0_fails_for_what_is_new_only(tmp_path: Path) -> None:
    version = tree(tmp_path)
    racy = version.with_texts({"a.cu": RACE.replace(b"    cudaStreamSynchronize(s);\n", b"")})
    result = g0(analyse(version), analyse(racy))
    assert result.state is GateState.FAILED
    assert result.findings[0].path == "a.cu"
    assert RACE.splitlines()[result.findings[0].line] == b"    h[0] = p[0];"  # a line above is gone
    moved = racy.with_texts({"a.cu": b"\n\n" + racy.read("a.cu")})
    again = g0(analyse(racy), analyse(moved))
    assert again.state is GateState.PASSED
    assert [f.baseline for f in again.findings] == [True] * len(again.findings) != []


def test_g0_fails_for_text_that_is_not_understood(tmp_path: Path) -> None:
    version = tree(tmp_path)
    broken = version.with_texts({"a.cu": RACE.replace(b"return (int)", b"return (((int")})
    result = g0(analyse(version), analyse(broken))
    assert result.state is GateState.FAILED
    assert "not understood" in result.reason


def test_g1_tells_what_the_proof_says() -> None:
    proof = Proof(
        ProofState.FAILED,
        "the order is lost",
        (ProofFinding("the order is lost", "a.cu", 3), ProofFinding("because of this", "a.cu", 4, original=True)),
        (Quantity("waits", "2", "1", True),),
        7,
        Declared(("remove-wait",), waits=May.FEWER),
        {"rests_on": []},
    )
    result = g1(proof)
    assert (result.gate, result.state, result.reason) == ("G1", GateState.FAILED, "the order is lost")
    assert result.findings[0] == GateFinding("the order is lost", "a.cu", 3)
    assert "of the original" in result.findings[1].what
    assert result.evidence["pairs"] == 7
    assert result.evidence["quantities"] == [{"name": "waits", "before": "2", "after": "1", "allowed": True}]
    assert g1(Proof(ProofState.PROVED)).state is GateState.PROVED
    assert g1(Proof(ProofState.UNTESTED, "x")).state is GateState.UNTESTED
