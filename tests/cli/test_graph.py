"""`stitchcuda graph` over small programs, and on the shipped example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stitchcuda.server.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "vit"

TWO = """#include <cuda_runtime.h>
__global__ void fill(float* x) { x[threadIdx.x] = 1; }
void produce(float* x, cudaStream_t s) { fill<<<1, 64, 0, s>>>(x); }
int main() {
    float* x; float h[64];
    cudaStream_t s;
    cudaStreamCreate(&s);
    cudaMalloc(&x, sizeof h);
    for (int i = 0; i < 10; ++i) {
        produce(x, s);
        produce(x, 0);
    }
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    cudaFree(x);
    cudaStreamDestroy(s);
}
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "two.cu"
    path.write_text(TWO)
    return str(path)


def test_json(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", program, "--format", "json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["schema"] == 1 and value["problems"] == []
    launches = [n for n in value["nodes"] if n["kind"] == "launch"]
    assert [(n["stream"], n["line"], n["calls"][0]["line"]) for n in launches] == [("s", 3, 10), ("default", 3, 11)]
    assert {n["path"] for n in value["nodes"]} == {program}
    (loop,) = value["loops"]
    assert (loop["trip"], loop["line"]) == ("10", 9)
    assert all(n["loop"] == loop["id"] for n in launches)
    (copy,) = [n for n in value["nodes"] if n["kind"] == "copy"]
    assert (copy["copy_kind"], copy["bytes"], copy["reads"], copy["writes"]) == ("d2h", "256", ["x"], ["h"])
    assert {"source": launches[1]["id"], "target": copy["id"], "why": "stream"} in value["edges"]


def test_function(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", program, "--function", "produce", "--format", "json"]) == 0
    assert {n["kind"] for n in json.loads(capsys.readouterr().out)["nodes"]} == {"launch"}


def test_function_that_is_not_there(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", program, "--function", "prodce"]) == 2
    assert "no function 'prodce'" in capsys.readouterr().err


def test_mermaid(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", program, "--format", "mermaid"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("flowchart TB\n") and out.count("subgraph") == out.count("  end\n") == 3


def test_text(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", program]) == 0
    out = capsys.readouterr().out
    assert "In the loop at line 9, 10 rounds:" in out
    assert "`fill` runs on stream `s` with grid 1 and block 64 and writes `x`" in out
    assert "- from device to host: `x` to `h` (line 13)" in out


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("a.html", "<!DOCTYPE html>"),
        ("a.SVG", "<svg "),
        ("a.gv", "digraph "),
        ("a.mmd", "flowchart "),
        ("a.json", "{"),
        ("a.txt", "main ("),
        ("a", "main ("),
    ],
)
def test_the_ending_of_the_file_says_the_format(program: str, tmp_path: Path, name: str, begins: str) -> None:
    assert main(["graph", program, "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text().startswith(begins)


def test_what_is_said_goes_before_the_ending_of_the_file(program: str, tmp_path: Path) -> None:
    assert main(["graph", program, "-o", str(tmp_path / "a.html"), "--format", "dot"]) == 0
    assert (tmp_path / "a.html").read_text().startswith("digraph ")


def test_a_picture_that_no_format_is(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", program, "-o", str(tmp_path / "a.png")]) == 2
    error = capsys.readouterr().err
    assert "a.png" in error and "-o FILE.svg" in error and "dot -Tpng" in error
    assert not (tmp_path / "a.png").exists()


def test_a_path_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "no-such-file.cu"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and "no such file" in shown.err, "what was not read is not said to have no CUDA work"


def test_the_shipped_example_is_fully_resolved(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(EXAMPLE), "--format", "json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert {n["confidence"] for n in value["nodes"]} == {"certain"}
    assert len({n["kernel"] for n in value["nodes"] if n["kernel"]}) >= 10
