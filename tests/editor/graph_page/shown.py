"""Pages of the execution graph for tests, and what they show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.analysis.graph.build import execution_graph
from stitchcuda.analysis.graph.model import ExecutionGraph, GraphEdge, GraphNode
from stitchcuda.analysis.index import Index
from stitchcuda.server.cli import main

from tests.editor.graph_page import browser as pages
from tests.editor.graph_page.browser import Browser

ROOT = Path(__file__).parents[3]
STREAMS = "tests/fixtures/traces/programs/streams.cu"
BOXES = """[...document.querySelectorAll("g.box")].map((g) => {
  const of = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  return {node: g.dataset.node, rect: of(g.querySelector("rect")), texts: [...g.querySelectorAll("text")].map(of), words: g.textContent};
})"""
CONTRASTS = """(() => {
  const channel = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const found = {};
  for (const g of document.querySelectorAll("g.box:not(.faint)")) {
    const rect = g.querySelector("rect");
    for (const text of g.querySelectorAll("text")) {
      const key = `${rect.getAttribute("class")} ${text.getAttribute("class") || "large"}`;
      found[key] = ratio(getComputedStyle(text).fill, getComputedStyle(rect).fill);
    }
  }
  for (const selector of [".details dt", ".details dd", ".list .at", ".caption", ".details .link", ".legend span"]) {
    const e = document.querySelector(selector);
    if (!e) continue;
    let back = e;
    while (getComputedStyle(back).backgroundColor === "rgba(0, 0, 0, 0)") back = back.parentElement;
    found[selector] = ratio(getComputedStyle(e).color, getComputedStyle(back).backgroundColor);
  }
  return found;
})()"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if reason := pages.missing():
        pytest.skip(reason)
    with pages.browser() as running:
        yield running


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


def written(folder: Path, name: str, *arguments: str) -> Path:
    """The page that the command writes; made once."""
    file = folder / f"{name}.html"
    if not file.exists():
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(ROOT)
            assert main(["graph", *arguments, "--format", "html", "-o", str(file)]) == 0
    return file


@pytest.fixture(scope="session")
def streams(folder: Path) -> Path:
    return written(folder, "streams", STREAMS, "--trace", "tests/fixtures/traces/streams.json")


@pytest.fixture(scope="session")
def vit(folder: Path) -> Path:
    return written(folder, "vit", "examples/vit_expert", "--before", "examples/vit")


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json"[^>]*>(.*?)</script>', page.read_text(encoding="ascii"), re.DOTALL
    )
    assert found is not None
    value: dict[str, Any] = json.loads(found[1])
    return value


def boxes(browser: Browser) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.js(BOXES)
    return found


def is_legible(browser: Browser) -> None:
    """No box lies on another one, and no text leaves its box."""
    drawn = boxes(browser)
    assert drawn
    for one, other in combinations(drawn, 2):
        a, b = one["rect"], other["rect"]
        apart = a[2] <= b[0] + 0.6 or b[2] <= a[0] + 0.6 or a[3] <= b[1] or b[3] <= a[1]
        assert apart, (one, other)
    for box in drawn:
        for text in box["texts"]:
            assert box["rect"][0] <= text[0] and text[2] <= box["rect"][2] + 0.5, box
            assert box["rect"][1] <= text[1] and text[3] <= box["rect"][3] + 0.5, box


def item(name: str, nth: int = 0) -> str:
    """A selector of the list's nth entry of this call."""
    return f'#operations .call:text-is("{name}") >> nth={nth}'


def small_graph(count: int) -> ExecutionGraph:
    index = Index()
    index.put(
        "a.cu",
        b"__global__ void k(float* p) { *p = 1; }\nint main() { float* p; cudaMalloc(&p, 4); k<<<1, 1>>>(p); cudaFree(p); }\n",
    )
    analysis = index.analyse()
    graph = execution_graph(analysis.timelines, analysis.program, analysis.sources)
    launch = next(n for n in graph.nodes if n.kind == "launch")
    nodes: list[GraphNode] = []
    edges: list[GraphEdge] = []
    for k in range(count):
        stream = f"s{k % 8}"
        nodes.append(replace(launch, id=f"n{k + 1}", stream=stream, line=k + 1, writes=(f"buffer_{k}",)))
        if k >= 8:
            edges.append(GraphEdge(f"n{k - 7}", f"n{k + 1}", "stream"))
        if k >= 9 and k % 5 == 0:
            edges.append(GraphEdge(f"n{k - 8}", f"n{k + 1}", "event"))
    return ExecutionGraph(tuple(nodes), tuple(edges), ())


def called(page: Path, name: str) -> dict[str, Any]:
    """The first operation of a kernel or call."""
    node: dict[str, Any] = next(n for n in data_of(page)["sides"][0]["nodes"] if name in (n["kernel"], n["api"]))
    return node
