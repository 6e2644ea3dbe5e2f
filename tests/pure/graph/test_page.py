"""The execution graph as a page: what is in it, and that nothing in it can become code. How it works is for tests/editor/test_graph_page.py."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stitchcuda.analysis.findings.finding import Confidence, Finding
from stitchcuda.analysis.graph.build import execution_graph
from stitchcuda.analysis.graph.hazards import Hazard, hazards
from stitchcuda.analysis.graph.matched import differences, matched
from stitchcuda.analysis.graph.measured import Measured, MeasuredLane, Span
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.graph.to_html import NONCE, Side, to_html
from stitchcuda.analysis.graph.to_json import to_json
from stitchcuda.analysis.index import Analysis, Index

ROOT = Path(__file__).parents[3]
RACE = """#include <cuda_runtime.h>
__global__ void produce(float* out) { out[threadIdx.x] = 1; }
__global__ void consume(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
int main() {
    float *x, *y;
    cudaStream_t a, b;
    cudaMalloc(&x, 1024);
    cudaMalloc(&y, 1024);
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    for (int i = 0; i < 8; ++i) { /* \u00e9 */ produce<<<1, 256, 0, a>>>(x); consume<<<1, 256, 0, b>>>(x, y); }
    cudaDeviceSynchronize();
}
"""


class Reader(HTMLParser):
    """The elements of a page, and the text in scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.texts.append((self.elements[-1][0], data))


def analysed(**files: str) -> Analysis:
    index = Index()
    for name, text in files.items():
        index.put(f"{name}.cu", text.encode())
    return index.analyse()


def graph_of(analysis: Analysis) -> ExecutionGraph:
    return execution_graph(analysis.timelines, analysis.program, analysis.sources)


def told(finding: Finding) -> str | None:
    return finding.severity.value if finding.confidence is not Confidence.POSSIBLE else None


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None
    value: dict[str, Any] = json.loads(found[1])
    return value


@pytest.fixture(scope="module")
def race() -> Analysis:
    return analysed(race=RACE)


def test_every_operation_and_edge_is_in_the_page(race: Analysis) -> None:
    graph = graph_of(race)
    (side,) = data_of(to_html(Side(graph)))["sides"]
    value = to_json(graph)
    assert len(side["nodes"]) == len(graph.nodes) > 5
    for node, fields in zip(side["nodes"], value["nodes"], strict=True):
        assert {k: v for k, v in node.items() if k in fields and k != "calls"} == {
            k: v for k, v in fields.items() if k != "calls"
        }
    ids = [node["id"] for node in side["nodes"]]
    assert [{"source": ids[s], "target": ids[t], "why": why} for s, t, why in side["edges"]] == value["edges"]
    assert {lane["lane"] for lane in side["lanes"]} == {node["lane"] for node in side["nodes"]}
    assert [loop["id"] for loop in side["loops"]] == [loop["id"] for loop in value["loops"]]
    overlaps = {(o.one, o.other, o.next_round) for o in graph.overlaps}
    runs = {
        (ids[k], ids[node], later)
        for node, *both in side["overlaps"]
        for later, found in zip((False, True), both, strict=True)
        for first, last in found
        for k in range(first, last + 1)
    }
    assert runs == overlaps != set()


CONDITIONAL = """#include <cuda_runtime.h>
__global__ void k(float* p) { p[threadIdx.x] = 1; }
int main(int argc, char** argv) {
    float *x, *h;
    cudaStream_t s;
    cudaMalloc(&x, 256);
    cudaMallocHost(&h, 256);
    cudaStreamCreate(&s);
    k<<<1, 64, 0, s>>>(x);
    if (argc > 1) cudaStreamSynchronize(s);
    h[1] = 2;
    cudaStreamSynchronize(s);
    h[0] = 1;
}
"""


def test_what_is_complete_is_so_on_every_path() -> None:
    """The edges alone would say that the kernel is complete before the first call after the wait that may not be made."""
    analysis = analysed(a=CONDITIONAL)
    graph = execution_graph(analysis.timelines, analysis.program, analysis.sources, complete=True)
    (side,) = data_of(to_html(Side(graph)))["sides"]
    complete = {
        node["line"]: {side["nodes"][k]["line"] for first, last in runs for k in range(first, last + 1)}
        for node, runs in zip(side["nodes"], side["complete"], strict=True)
    }
    assert complete[9] == {6, 7, 8}, "the host's calls before it"
    assert 9 in complete[10], "when it returns"
    assert 9 not in complete[11]
    assert 9 in complete[12] and 9 in complete[13]


def test_what_is_captured_is_not_complete_when_it_was_recorded() -> None:
    index = Index()
    path = "tests/fixtures/traces/programs/graph.cu"
    index.put(path, (ROOT / path).read_bytes())
    analysis = index.analyse()
    graph = execution_graph(analysis.timelines, analysis.program, analysis.sources, complete=True)
    captured = sum(1 << k for k, node in enumerate(graph.nodes) if node.captured)
    assert captured
    for node, complete in zip(graph.nodes, graph.complete, strict=True):
        assert bool(complete & captured) <= node.captured, node


def test_what_is_complete_does_not_overlap() -> None:
    analysis = Index()
    for path in sorted((ROOT / "examples" / "vit_expert").glob("*.[ch]*")):
        analysis.put(path.name, path.read_bytes())
    done = analysis.analyse()
    graph = execution_graph(done.timelines, done.program, done.sources, complete=True)
    rank = {node.id: k for k, node in enumerate(graph.nodes)}
    now = [o for o in graph.overlaps if not o.next_round]
    assert now and any(graph.complete)
    assert not [o for o in now if graph.complete[rank[o.other]] >> rank[o.one] & 1]


def test_equal_graphs_give_equal_pages(race: Analysis) -> None:
    again = analysed(race=RACE)
    one = to_html(Side(graph_of(race), hazards(graph_of(race), race, told)), title="race")
    assert one == to_html(Side(graph_of(again), hazards(graph_of(again), again, told)), title="race")


def test_the_page_asks_for_nothing(race: Analysis) -> None:
    page = to_html(Side(graph_of(race)))
    assert page.isascii()
    read = Reader(page)
    for tag, attributes in read.elements:
        assert not {"src", "href", "action", "style"} & set(attributes), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        if tag in ("script", "style"):
            assert attributes["nonce"] == NONCE
    code = [text for tag, text in read.texts if tag in ("script", "style")]
    assert not re.search(
        r"\bfetch\(|XMLHttpRequest|WebSocket|\bimport\(|\beval\(|new Function|innerHTML|@import|url\(",
        "".join(code[0] + code[-1]),
    )
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}
    policy = next(
        a["content"] for t, a in read.elements if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert (
        policy
        == f"default-src 'none'; script-src 'nonce-{NONCE}'; style-src 'nonce-{NONCE}'; base-uri 'none'; form-action 'none'"
    )


def test_the_nonce_is_the_hosts(race: Analysis) -> None:
    page = to_html(Side(graph_of(race)), nonce="abc+/=_-9")
    assert NONCE not in page and page.count("abc+/=_-9") == 5
    assert page == to_html(Side(graph_of(race))).replace(NONCE, "abc+/=_-9")
    for wrong in ("", "a b", "'", '"><script>', "\u00e9"):
        with pytest.raises(ValueError, match="nonce"):
            to_html(Side(graph_of(race)), nonce=wrong)


HOSTILE = "</script><script>alert(1)</script><!--<script>\u2028\u2029\"'{{nonce}}{{script}}&amp;]]>__STITCHCUDA_NONCE__\x00\x1b\udc80\U0001f600"


@given(st.one_of(st.just(HOSTILE), st.text(st.characters(exclude_categories=()), max_size=40)))
@settings(max_examples=60, deadline=None)
def test_names_stay_names(name: str) -> None:
    node = replace(
        graph_of(analysed(race=RACE)).nodes[0],
        kernel=name,
        path=name,
        function=name,
        stream=name,
        reads=(name,),
        condition=name,
    )
    run = Measured(name, 0, 5, (MeasuredLane(name, None, True, (Span(0, 5, name, "call", node.id),)),), notes=(name,))
    hazard = Hazard("leak", "hint", name, name, 1, 1, (node.id,))
    side = Side(ExecutionGraph((node,), (), ()), (hazard,), run)
    page = to_html(side, before=side, title=name, function=name)
    plain = Reader(to_html(Side(ExecutionGraph((), (), ()))))
    assert [tag for tag, _ in Reader(page).elements] == [tag for tag, _ in plain.elements]
    assert page.count(NONCE) == 5
    value = data_of(page)
    assert value["function"] == name
    shown = value["sides"][1]
    assert shown["nodes"][0]["kernel"] == shown["hazards"][0]["message"] == shown["measured"]["names"][0] == name


def test_a_finding_is_on_all_operations_that_it_joins(race: Analysis) -> None:
    graph = graph_of(race)
    found = hazards(graph, race, told)
    nodes = {node.id: node for node in graph.nodes}
    raced = [h for h in found if h.code.startswith("stream-race")]
    assert raced
    for hazard in raced:
        assert {"produce", "consume"} <= {nodes[n].kernel for n in hazard.nodes}, "both stand on one line"
        assert hazard.line == 11
    assert hazards(graph, race, lambda finding: None) == ()


def test_a_finding_in_a_kernel_is_on_its_launches() -> None:
    text = """#include <cuda_runtime.h>
__global__ void shift(float* p) { __shared__ float s[64]; s[threadIdx.x] = p[threadIdx.x]; p[threadIdx.x] = s[63 - threadIdx.x]; }
int main() { float* p; cudaMalloc(&p, 256); shift<<<1, 64>>>(p); cudaMemset(p, 0, 256); shift<<<1, 64>>>(p); cudaFree(p); }
"""
    analysis = analysed(a=text)
    graph = graph_of(analysis)
    (missing,) = [h for h in hazards(graph, analysis, told) if h.code == "missing-syncthreads"]
    assert missing.device and missing.line == 2
    assert missing.nodes == tuple(n.id for n in graph.nodes if n.kernel == "shift") and len(missing.nodes) == 2


def test_columns_count_characters(race: Analysis) -> None:
    graph = graph_of(race)
    line = RACE.split("\n")[10]
    for node in graph.nodes:
        if node.kernel:
            assert line[node.column - 1 :].startswith(f"{node.kernel}<<<")


def test_versions_are_matched_and_told_apart() -> None:
    before = graph_of(analysed(race=RACE))
    text = RACE.replace("consume<<<1, 256, 0, b>>>", "consume<<<2, 128, 0, a>>>").replace(
        "    cudaDeviceSynchronize();\n", ""
    )
    after = graph_of(analysed(race=text))
    pairs = {after_id: before_id for after_id, before_id in matched(before, after).items()}
    changed = {n.id: n for n in after.nodes}
    original = {n.id: n for n in before.nodes}
    left = {n.kernel or n.api for n in before.nodes if n.id not in pairs.values()}
    assert left == {"cudaDeviceSynchronize"} and len(pairs) == len(after.nodes)
    unlike = {changed[a].kernel: differences(original[b], changed[a]) for a, b in pairs.items()}
    assert unlike["consume"] == {"stream": ("b", "a"), "grid": ("1", "2"), "block": ("256", "128")}
    assert unlike["produce"] == {}
    value = data_of(to_html(Side(after), before=Side(before)))
    assert len(value["pairs"]) == len(pairs) and [len(s["nodes"]) for s in value["sides"]] == [
        len(before.nodes),
        len(after.nodes),
    ]


def test_a_run_is_told_in_nanoseconds_from_when_the_device_was_ready(race: Analysis) -> None:
    graph = graph_of(race)
    launch = next(n for n in graph.nodes if n.kernel)
    spans = (Span(1500, 2700, "produce", "kernel", launch.id, issued=1200), Span(3000, 3100, "other", "kernel"))
    run = Measured("GPU", 1000, 4000, (MeasuredLane("stream a", "a", False, spans),), left_out=3)
    (side,) = data_of(to_html(Side(graph, measured=run)))["sides"]
    number = graph.nodes.index(launch)
    assert side["measured"]["lanes"][0]["spans"] == [[500, 1200, number, 0, 0, 300], [2000, 100, -1, 1, 0, -1]]
    assert (
        side["measured"]["names"] == ["produce", "other"]
        and side["measured"]["end"] == 3000
        and side["measured"]["leftOut"] == 3
    )
