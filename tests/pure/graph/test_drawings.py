"""The execution graph for Graphviz and as SVG: read back by other programs, and legible: nothing lies on anything else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pydot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stitchcuda.analysis.graph.build import execution_graph
from stitchcuda.analysis.graph.model import ExecutionGraph, GraphNode
from stitchcuda.analysis.graph.svg_layout import BOX_HEIGHT
from stitchcuda.analysis.graph.to_dot import to_dot
from stitchcuda.analysis.graph.to_svg import panels, to_svg
from stitchcuda.analysis.index import Index

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"
PROGRAM = """#include <cuda_runtime.h>
__global__ void produce(float* out) { out[threadIdx.x] = 1; }
__global__ void consume(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
int main() {
    float *x, *y, *h;
    cudaStream_t a, b;
    cudaEvent_t ready;
    cudaMallocHost(&h, 1024);
    cudaMalloc(&x, 1024);
    cudaMalloc(&y, 1024);
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreate(&b);
    cudaEventCreate(&ready);
    for (int i = 0; i < 100; ++i) {
        produce<<<1, 256, 0, a>>>(x);
        for (int j = 0; j < 4; ++j) produce<<<1, 256, 0, b>>>(y);
        cudaEventRecord(ready, a);
        cudaStreamWaitEvent(b, ready, 0);
        consume<<<1, 256, 0, b>>>(x, y);
        cudaMemcpyAsync(h, y, 1024, cudaMemcpyDeviceToHost, b);
        cudaStreamSynchronize(b);
        if (h[0] > 0) break;
    }
    consume<<<1, 256>>>(x, y);
    cudaDeviceSynchronize();
    cudaFree(x);
    cudaFree(y);
}
"""
ENTRIES = """#include <cuda_runtime.h>
__global__ void fill(float* out) { out[threadIdx.x] = 1; }
void one(float* p, cudaStream_t s) { fill<<<1, 256, 0, s>>>(p); }
void two(float* p, cudaStream_t s) { for (int i = 0; i < 3; ++i) { fill<<<1, 256, 0, s>>>(p); fill<<<1, 256>>>(p); } }
"""


def graph_of(text: str, *paths: Path) -> ExecutionGraph:
    index = Index(strict=True)
    for path in paths:
        index.put(str(path.relative_to(ROOT)), path.read_bytes())
    if text:
        index.put("a.cu", text.encode())
    analysis = index.analyse()
    return execution_graph(analysis.timelines, analysis.program, analysis.sources)


def sources(name: str) -> list[Path]:
    return sorted(p for p in (ROOT / "examples" / name).iterdir() if p.suffix in (".cu", ".cuh", ".h"))


@cache
def made(name: str) -> ExecutionGraph:
    match name:
        case "small":
            return graph_of(PROGRAM)
        case "two entries":
            return graph_of(ENTRIES)
        case "vit":
            return graph_of("", *sources("vit"))
    return graph_of("", *sources("vit_expert"), *(p for p in sources("vit") if p.suffix == ".h"))


@pytest.fixture(params=["small", "two entries", "vit", "vit_expert"])
def graph(request: pytest.FixtureRequest) -> ExecutionGraph:
    return made(request.param)


pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")  # of pydot itself


def node(number: int, kernel: str = "k", stream: str = "s", path: str = "a.cu") -> GraphNode:
    return GraphNode(
        f"n{number}", "launch", "<<<>>>", kernel, path, number, "main", stream, None, None, None, None, 0, 0, (), (), None,
        "1", "1", None, None, "certain", entry="main",
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- Graphviz


def test_dot_is_read_back(graph: ExecutionGraph) -> None:
    read = pydot.graph_from_dot_data(to_dot(graph))
    assert read is not None and len(read) == 1
    clusters = read[0].get_subgraphs()
    assert all((c.get_name() or "").startswith("cluster_") for c in clusters)
    names = [n.get_name() for c in clusters for n in c.get_nodes()]
    assert sorted(names) == sorted(n.id for n in graph.nodes)
    edges = [(e.get_source(), e.get_destination(), e.get("label").strip('"')) for e in read[0].get_edges()]
    assert edges == [(e.source, e.target, e.why) for e in graph.edges]


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_draws_it(graph: ExecutionGraph) -> None:
    done = subprocess.run(["dot", "-Tplain"], input=to_dot(graph), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"^node ", done.stdout, re.MULTILINE)) == len(graph.nodes)


ODD = st.text(st.characters(codec=None, exclude_categories=()), min_size=1, max_size=12) | st.sampled_from(
    ['"', "\\", '\\"', "a\\", "<b>&amp;", "]]>", "-->", "\n", "\0", "\ud800", "N\\N", "{|}", "'", "größe 日本"]
)


@settings(max_examples=60, deadline=None)
@given(ODD, ODD, ODD)
def test_any_name_survives(kernel: str, stream: str, path: str) -> None:
    graph = ExecutionGraph(
        (node(1, kernel=kernel, stream=stream, path=path), node(2, stream=stream, path=path)), (), ()
    )
    read = pydot.graph_from_dot_data(to_dot(graph))
    assert read is not None and sum(len(c.get_nodes()) for c in read[0].get_subgraphs()) == 2
    for line in to_dot(graph).splitlines():
        assert len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0
    root = ElementTree.fromstring(to_svg(graph).encode())
    assert len(root.findall(f".//{SVG}g[@id]")) == 2
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {
        "svg", "title", "desc", "style", "defs", "marker", "path", "rect", "text", "g",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------------------- SVG


def test_svg_tells_every_node_and_where_it_is(graph: ExecutionGraph) -> None:
    root = ElementTree.fromstring(to_svg(graph))
    told = [t.text or "" for t in root.iterfind(f".//{SVG}g[@id]/{SVG}title")]
    text = "\n".join(told)
    for n in graph.nodes:
        assert f"{n.path}:{n.line} in {n.function}" in text
    lanes = [t.text for t in root.iterfind(f".//{SVG}text[@class='name']")]
    assert lanes[0] == "host" and len(lanes) == len({(n.entry, n.stream) for n in graph.nodes if n.stream}) + len(
        {n.entry for n in graph.nodes}
    )


def test_no_box_lies_on_another_and_time_goes_downwards(graph: ExecutionGraph) -> None:
    for panel in panels(graph):
        for a, b in combinations(panel.boxes, 2):
            apart = abs(a.y - b.y) >= BOX_HEIGHT + 10 or a.lane != b.lane
            assert apart, (a.node.id, b.node.id)
        for left, right in zip(range(len(panel.centres)), range(1, len(panel.centres)), strict=False):
            assert panel.centres[left] + panel.widths[left] / 2 < panel.centres[right] - panel.widths[right] / 2
        assert all(line.source.y + BOX_HEIGHT < line.target.y for line in panel.lines)
        assert all(0 <= x <= panel.width and 0 <= y <= panel.height for line in panel.lines for x, y in line.points)


def test_no_line_crosses_a_box(graph: ExecutionGraph) -> None:
    for panel in panels(graph):
        for line in panel.lines:
            assert line.points[0][1] == line.source.y + BOX_HEIGHT and line.points[-1][1] == line.target.y
            for (ax, ay), (bx, by) in zip(line.points, line.points[1:], strict=False):
                assert ax == bx or ay == by, "upright or level"
                for box in panel.boxes:
                    half = panel.widths[box.lane] / 2
                    beside = max(ax, bx) <= box.x - half or min(ax, bx) >= box.x + half
                    outside = max(ay, by) <= box.y or min(ay, by) >= box.y + BOX_HEIGHT
                    assert beside or outside, (line.why, line.source.node.id, line.target.node.id, box.node.id)


def test_lines_do_not_run_on_each_other(graph: ExecutionGraph) -> None:
    """Level pieces in one gap that overlap have tracks of their own."""
    for panel in panels(graph):
        level = [
            (a[1], min(a[0], b[0]), max(a[0], b[0]), line)
            for line in panel.lines
            for a, b in zip(line.points, line.points[1:], strict=False)
            if a[1] == b[1] and a[0] != b[0]
        ]
        for (y, low, high, one), (other_y, other_low, other_high, other) in combinations(level, 2):
            if y == other_y and one is not other:
                assert high <= other_low or other_high <= low, (one.why, other.why)


def test_boxes_of_a_loop_are_inside_its_frame_and_no_others(graph: ExecutionGraph) -> None:
    parents = {loop.id: loop.parent for loop in graph.loops}

    def inside(loop: str | None, wanted: str) -> bool:
        return loop is not None and (loop == wanted or inside(parents[loop], wanted))

    framed = 0
    for panel in panels(graph):
        for frame in panel.frames:
            framed += 1
            for box in panel.boxes:
                within = frame.top < box.y and box.y + BOX_HEIGHT < frame.bottom
                assert within == inside(box.node.loop, frame.loop.id)
    assert framed == len(graph.loops)


def test_work_that_could_run_at_the_same_time_stands_side_by_side() -> None:
    (panel,) = panels(made("small"))
    rows = {(b.node.kernel, b.node.stream): b.y for b in panel.boxes if b.node.kind == "launch"}
    assert rows["produce", "a"] < rows["consume", "b"] < rows["consume", "default"]
    free = ExecutionGraph((node(1, stream="a"), node(2, stream="b")), (), ())
    (panel,) = panels(free)
    assert panel.boxes[0].y == panel.boxes[1].y and panel.boxes[0].x < panel.boxes[1].x


def test_light_and_dark() -> None:
    """Text on everything that it can stand on has a contrast of at least 4.5, in both."""
    style = ElementTree.fromstring(to_svg(made("small"))).findtext(f"{SVG}style") or ""
    light, _, dark = style.partition("@media (prefers-color-scheme:dark)")

    def fill(rules: str, name: str) -> str:
        match = re.search(re.escape(name) + r"\{[^}]*?fill:(#[0-9a-f]{6})", rules)
        assert match is not None, name
        return match[1]

    for rules in (light, dark):
        for text in ("text", ".small"):
            for behind in (".back", ".lane", ".host rect", ".launch rect", ".copy rect", ".event rect", ".wait rect"):
                assert contrast(fill(rules, text), fill(rules, behind)) >= 4.5, (text, behind)


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_nothing_to_draw() -> None:
    empty = ExecutionGraph((), (), ())
    assert "No CUDA work was found." in (ElementTree.fromstring(to_svg(empty)).findtext(f"{SVG}text") or "")
    read = pydot.graph_from_dot_data(to_dot(empty))
    assert read is not None and read[0].get_edges() == []


def test_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text(PROGRAM)
    for form in ("svg", "dot", "text"):
        command = [sys.executable, "-P", "-m", "stitchcuda.server.cli", "graph", "a.cu", "--format", form]
        outs = {
            subprocess.run(
                command, cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
            ).stdout
            for seed in ("1", "2", "77")
        }
        assert len(outs) == 1 and outs.pop()
