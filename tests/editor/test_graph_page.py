"""The page of the execution graph in a real browser."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from stitchcuda.analysis.graph.build import NOT_NODES
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.graph.to_html import Side, to_html
from stitchcuda.analysis.index import Index

from tests.editor.graph_page.browser import Browser
from tests.editor.graph_page.shown import (
    BOXES,
    CONTRASTS,
    ROOT,
    boxes,
    browser,
    called,
    data_of,
    folder,
    is_legible,
    item,
    small_graph,
    streams,
    vit,
    written,
)

__all__ = ["browser", "folder", "streams", "vit"]  # fixtures
pytestmark = pytest.mark.editor


# ------------------------------------------------------------------------------------------------------------------ order


def test_lanes_and_boxes(browser: Browser, streams: Path) -> None:
    browser.open(streams)
    assert browser.texts(".lane-name") == ["host", "stream first", "default stream", "stream second"]
    is_legible(browser)
    nodes = data_of(streams)["sides"][0]["nodes"]
    assert len(browser.texts("#operations li")) == len(nodes)
    seen: set[str] = set()
    browser.js("document.querySelector('.drawing').focus()")
    browser.do("press", keys="Home")
    for _ in range(40):
        seen.update(box["node"] for box in boxes(browser))
        browser.do("press", keys="Shift+ArrowRight")
        browser.do("press", keys="Shift+ArrowRight")
        browser.do("press", keys="Shift+ArrowRight")
    assert seen == {node["id"] for node in nodes}
    is_legible(browser)


def test_large_and_nested_programs_are_legible(browser: Browser, vit: Path) -> None:
    browser.open(vit)
    is_legible(browser)
    for _ in range(6):
        browser.do("press", keys="-")
        is_legible(browser)


def test_a_click_chooses_and_shows_what_the_operation_is_ordered_with(browser: Browser, streams: Path) -> None:
    browser.open(streams, width=1700)
    browser.do("click", selector=item("add"))
    assert "add<<<N / 256, 256>>>" in browser.text("#details")
    assert "Reads\na, b" in browser.text("#details")
    assert browser.js("document.querySelectorAll('.drawing .ring.chosen').length") == 1
    before, beside = browser.js(
        """["before", "beside"].map((kind) => [...document.querySelectorAll(`.drawing .ring.${kind}`)].map((ring) => {
             const r = ring.getBoundingClientRect();
             return [...document.querySelectorAll("g.box")].find((g) => { const b = g.getBoundingClientRect(); return Math.abs(b.left - r.left) < 6 && Math.abs(b.top - r.top) < 6; }).textContent;
           }))"""
    )
    assert any("cudaStreamWaitEvent" in words for words in before)
    assert any("cudaMemcpy" in words for words in beside), "the copy on the default stream that nothing orders with it"
    assert "Could run at the same time" in browser.text("#details")
    assert "event-wrong-stream" in browser.text("#details")
    assert browser.js("document.querySelectorAll('.danger.error').length") > 0
    browser.point_at('g.box[data-node="n1"]') if any(b["node"] == "n1" for b in boxes(browser)) else None
    browser.do("press", keys="Escape")
    assert browser.js("document.querySelectorAll('.drawing .ring').length") == 0
    assert "Findings (1)" in browser.text("#details")


@pytest.mark.parametrize("program", ["streams", "reuse"])
def test_what_is_complete_before_an_operation_is_what_the_analysis_says(
    browser: Browser, folder: Path, program: str
) -> None:
    source = f"tests/fixtures/traces/programs/{program}.cu"
    browser.open(written(folder, f"{program}_order", source))
    index = Index()
    index.put(source, (ROOT / source).read_bytes())
    (timeline,) = index.analyse().timelines
    kept = [op for op in timeline.ops if op.kind not in NOT_NODES]
    assert len({op.node for op in kept}) == len(kept) == len(browser.texts("#operations li")), "no loops"
    told = []
    for _ in kept:
        browser.do("press", keys="n")
        found = re.search(r"after (\d+) operations", browser.text("#announce"))
        assert found is not None
        told.append(int(found[1]))
    done = [timeline.before[op.id] | op.waits for op in kept]
    assert told == [sum(bits >> other.id & 1 for other in kept) for bits in done]


def test_what_is_ordered_stands_to_the_right_and_has_its_lines(browser: Browser, streams: Path) -> None:
    browser.open(streams, width=2600)
    browser.do("press", keys="0")
    (side,) = data_of(streams)["sides"]
    where = {box["node"]: box["rect"] for box in boxes(browser)}
    assert len(where) == len(side["nodes"])
    across: dict[str, int] = {}
    for source, target, why in side["edges"]:
        one, other = side["nodes"][source], side["nodes"][target]
        assert where[one["id"]][2] < where[other["id"]][0], (one["head"], other["head"])
        if one["lane"] != other["lane"] and why not in ("data", "allocation"):
            across[why] = across.get(why, 0) + 1
    heads = browser.js(
        "Object.fromEntries([...document.querySelectorAll('.drawing path.head')].map((e) => [e.classList[1], e.getAttribute('d').split('M').length - 1]))"
    )
    assert heads == across and {"event", "host_wait"} <= set(heads)


def test_a_click_on_a_box_chooses_it(browser: Browser, streams: Path) -> None:
    browser.open(streams)
    node = called(streams, "scale")["id"]
    browser.point_at(f'g.box[data-node="{node}"]')
    assert browser.js("document.querySelector('#operations li[aria-selected=true]').dataset.node") == node


@pytest.mark.parametrize("width", [1280, 460])
def test_it_opens_where_the_work_begins(browser: Browser, streams: Path, width: int) -> None:
    browser.open(streams, width=width, height=700)
    (scale,) = [b for b in boxes(browser) if b["node"] == called(streams, "scale")["id"]]
    drawing = browser.box(".drawing")
    assert drawing["x"] + 70 < scale["rect"][0] and scale["rect"][2] < drawing["x"] + drawing["width"]
    browser.js("document.querySelector('.drawing').focus()")
    browser.do("press", keys="Home")
    assert boxes(browser)[0]["node"] == "n1"
    browser.do("press", keys="End")
    assert boxes(browser)[-1]["node"] == data_of(streams)["sides"][0]["nodes"][-1]["id"] or width < 500


def test_the_overview_shows_where_one_is_and_leads_there(browser: Browser, streams: Path) -> None:
    browser.open(streams)
    whole, seen = browser.box(".overview-back"), browser.box(".overview-seen")
    assert whole["x"] < seen["x"] and seen["x"] + seen["width"] < whole["x"] + whole["width"]
    middle = whole["y"] + whole["height"] / 2
    browser.do("pointer", x=whole["x"] + 3, y=middle)
    assert boxes(browser)[0]["node"] == "n1"
    assert browser.js("document.querySelectorAll('.ring').length") == 0, "nothing is chosen by it"
    browser.do("drag", **{"from": [whole["x"] + 3, middle], "to": [whole["x"] + whole["width"] / 2, middle]})
    seen = browser.box(".overview-seen")
    assert seen["x"] + seen["width"] / 2 == pytest.approx(whole["x"] + whole["width"] / 2, abs=3)
    browser.do("press", keys="0")
    assert browser.js("document.querySelector('.overview')") is None


def test_names_of_streams_events_and_memory_are_whole(browser: Browser, folder: Path) -> None:
    source = folder / "named.cu"
    source.write_text(NAMED)
    page = written(folder, "named", str(source))
    browser.open(page, width=460, height=700)
    browser.js("document.querySelector('.drawing').focus()")
    browser.do("press", keys="Home")
    notes: set[str] = set()
    for _ in range(12):
        notes.update(browser.js("[...document.querySelectorAll('g.box text.small')].map((e) => e.textContent)"))
        browser.do("press", keys="Shift+ArrowRight")
    assert {"uploading", "uploaded", "device_values"} <= {word for note in notes for word in note.split()}
    assert {"uploading", "uploaded", "device_values"} <= {of.strip() for of in browser.texts("#operations .of")}
    lane = browser.js("[...document.querySelectorAll('.lane-name')].map((e) => e.getBoundingClientRect().top)[1]")
    browser.do("wheel", x=20, y=lane + 5)  # to point there
    shown = browser.js("document.querySelector('.drawing').title")
    assert shown == "stream uploading\ncudaStreamNonBlocking"


NAMED = """#include <cuda_runtime.h>
__global__ void step(float* p) { p[threadIdx.x] += 1; }
int main() {
    float* device_values;
    cudaStream_t uploading;
    cudaEvent_t uploaded;
    cudaMalloc(&device_values, 256);
    cudaStreamCreateWithFlags(&uploading, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&uploaded, cudaEventDisableTiming);
    step<<<1, 64, 0, uploading>>>(device_values);
    cudaEventRecord(uploaded, uploading);
    cudaEventSynchronize(uploaded);
}
"""


def test_search_finds_marks_and_goes_on(browser: Browser, streams: Path) -> None:
    browser.open(streams)
    browser.do("press", keys="/")
    browser.do("type", text="memcpy staged")
    shown = browser.js(
        "[...document.querySelectorAll('#operations li')].filter((e) => !e.hidden).map((e) => e.textContent)"
    )
    nodes = data_of(streams)["sides"][0]["nodes"]
    meant = [n for n in nodes if "cudaMemcpy" in n["head"] and "staged" in (*n["reads"], *n["writes"])]
    assert len(shown) == len(meant) > 1
    assert all("cudaMemcpy" in words for words in shown)
    assert browser.text("#count") == f"{len(shown)} of {len(browser.texts('#operations li'))}"
    browser.do("press", keys="Enter")
    first = browser.js("document.querySelector('#operations li[aria-selected=true]').dataset.node")
    browser.do("press", keys="Enter")
    second = browser.js("document.querySelector('#operations li[aria-selected=true]').dataset.node")
    assert first != second
    browser.do("press", keys="Escape")
    assert browser.js("[...document.querySelectorAll('#operations li')].every((e) => !e.hidden)")


def test_functions_narrow_the_page(browser: Browser, vit: Path) -> None:
    browser.open(vit)
    browser.do("choose", selector="#function", value="attention_block")
    side = data_of(vit)["sides"][0]
    inside = [
        n
        for n in side["nodes"]
        if n["function"] == "attention_block" or "attention_block" in {c["callee"] for c in n["calls"]}
    ]
    assert f"{len(inside)} operations" in browser.text(".stage-head")
    is_legible(browser)


# --------------------------------------------------------------------------------------------------------------- controls


def lefts(browser: Browser) -> dict[str, float]:
    return {box["node"]: box["rect"][0] for box in boxes(browser)}


def test_pan_and_zoom_by_mouse_wheel_and_keys(browser: Browser, streams: Path) -> None:
    browser.open(streams)
    drawing = browser.box(".drawing")
    x, y = drawing["x"] + 500, drawing["y"] + 300
    node = boxes(browser)[1]["node"]

    def place() -> tuple[float, float]:
        box = browser.js(BOXES + f".find((b) => b.node === {node!r})")
        return box["rect"][0], box["rect"][2] - box["rect"][0]

    left, width = place()
    browser.do("drag", **{"from": [x, y], "to": [x - 60, y]})
    assert place() == pytest.approx((left - 60, width), abs=1)
    browser.do("wheel", x=x, y=y, dy=-60)
    assert place() == pytest.approx((left, width), abs=1)
    browser.do("wheel", x=x, y=y, dy=-100, keys="Control")
    assert place()[1] > 1.2 * width
    browser.open(streams)
    browser.do("press", keys="+")
    assert place()[1] == pytest.approx(1.3 * width, abs=1)
    browser.do("press", keys="-")
    assert place()[1] == pytest.approx(width, abs=1)
    browser.js("document.querySelector('.drawing').focus()")
    before = place()[0]
    browser.do("press", keys="ArrowRight")
    assert place()[0] == pytest.approx(before - 80, abs=1)
    browser.do("press", keys="0")
    last = browser.js(
        "Math.max(...[...document.querySelectorAll('g.box rect, path.few')].map((e) => e.getBoundingClientRect().right))"
    )
    assert last <= drawing["x"] + drawing["width"]


def test_by_keyboard_alone(browser: Browser, streams: Path) -> None:
    browser.open(streams)
    reached = []
    for _ in range(10):
        browser.do("press", keys="Tab")
        reached.append(
            browser.js(
                "(({id, className, tagName, dataset}) => id || dataset.value || className || tagName)(document.activeElement)"
            )
        )
        assert browser.js("getComputedStyle(document.activeElement).outlineStyle") != "none", reached
    order = ["function", "order", "zoom-out", "zoom-in", "zoom-fit", "drawing"]
    assert [name for name in reached if name in order] == order
    assert "search" in reached
    browser.js("document.querySelector('.drawing').focus()")
    browser.do("press", keys="Home")
    browser.do("press", keys="Enter")
    first = browser.text("#announce")
    assert first.startswith("cudaMalloc a, host, streams.cu:34, after 0 operations")
    browser.do("press", keys="ArrowRight")
    assert browser.text("#announce") != first
    browser.do("press", keys="ArrowDown")
    assert ", host," not in browser.text("#announce")
    assert "cudaMalloc" not in browser.js("document.querySelector('.drawing').getAttribute('aria-label')")
    browser.do("press", keys="Enter")
    place = browser.text("#toast").removeprefix("Copied ")
    assert re.fullmatch(r"tests/fixtures/traces/programs/streams\.cu:\d+:\d+", place)
    assert browser.js("navigator.clipboard.readText()") == place


def test_the_list_says_everything_to_a_screen_reader(browser: Browser, streams: Path) -> None:
    browser.open(streams)
    names = browser.js(
        "[...document.querySelectorAll('#operations li')].map((e) => [e.getAttribute('role'), e.getAttribute('aria-label')])"
    )
    nodes = data_of(streams)["sides"][0]["nodes"]
    assert [role for role, _ in names] == ["option"] * len(nodes)
    for (_, name), node in zip(names, nodes, strict=True):
        assert node["head"] in name and f"line {node['line']}" in name
    assert any("error event-wrong-stream" in name for _, name in names)
    assert browser.js("document.querySelectorAll('#operations li[tabindex=\"0\"]').length") == 1
    assert browser.js(
        "[...document.querySelectorAll('button, input, select, [tabindex]')].every((e) => (e.getAttribute('aria-label') || e.textContent || e.closest('label')))"
    )


# ----------------------------------------------------------------------------------------------------------------- versions


STATUSES = """[...document.querySelectorAll("#operations li")].map((e) => [e.querySelector(".name").textContent, e.querySelector(".mark.status").textContent])"""
ONE_STREAM = """#include <cuda_runtime.h>
__global__ void step(float* p) { p[threadIdx.x] += 1; }
__global__ void old(float* p) { p[threadIdx.x] *= 2; }
int main() {
    float *x, h[64];
    cudaMalloc(&x, sizeof h);
    step<<<1, 64>>>(x);
    old<<<1, 64>>>(x);
    cudaDeviceSynchronize();
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    cudaFree(x);
}
"""
OWN_STREAM = (
    ONE_STREAM.replace(
        "    step<<<1, 64>>>(x);\n    old<<<1, 64>>>(x);\n",
        "    cudaStream_t s;\n    cudaStreamCreate(&s);\n    step<<<1, 64, 0, s>>>(x);\n",
    )
    .replace("cudaDeviceSynchronize()", "cudaStreamSynchronize(s)")
    .replace("old", "unused")
)


def test_before_and_after(browser: Browser, folder: Path) -> None:
    for name, text in (("one", ONE_STREAM), ("other", OWN_STREAM)):
        (folder / name).mkdir()
        (folder / name / "main.cu").write_text(text)
    page = written(folder, "versions", str(folder / "other"), "--before", str(folder / "one"))
    browser.open(page, width=1500, height=900)
    assert browser.texts(".stage-head strong") == ["Before", "After"]
    marks = {name.split(" ")[0]: mark for name, mark in browser.js(STATUSES)}
    assert marks["step"] == "~" and marks["old"] == marks["cudaDeviceSynchronize"] == "\u2212"
    assert (
        marks["cudaStreamCreate"] == marks["cudaStreamSynchronize"] == "+"
        and marks["cudaMalloc"] == marks["cudaFree"] == ""
    )
    browser.do("click", selector=item("step"))
    assert browser.js("document.querySelectorAll('.drawing .ring.chosen').length") == 2, (
        "its counterpart is chosen with it"
    )
    said = browser.text("#details .change")
    assert "stream: default \u2192 s" in said and "grid" not in said
    assert "in main" in browser.text("#details")
    browser.do("click", selector=item("old"))
    assert "Only in the version before" in browser.text("#details .change")
    browser.do("click", selector="#version [data-value=before]")
    assert browser.texts(".stage-head strong") == ["Before"]
    assert len(browser.texts("#operations li")) == len(data_of(page)["sides"][0]["nodes"])
    browser.do("press", keys="ArrowRight")
    assert browser.texts(".stage-head strong") == ["After"]


# ----------------------------------------------------------------------------------------------------------------- measured


def test_measured_boxes_are_to_scale(browser: Browser, streams: Path) -> None:
    browser.open(streams)
    browser.do("click", selector="#scale [data-value=measured]")
    assert browser.texts(".lane-name") == ["host", "default stream", "stream first", "stream second", "device"]
    assert any("\u00b5s" in tick for tick in browser.texts(".axis text"))
    browser.do("click", selector=item("add"))
    browser.do("press", keys="z")
    run = data_of(streams)["sides"][0]["measured"]
    spans = {tuple(s[:2]) for lane in run["lanes"] if lane["title"] == "stream second" for s in lane["spans"]}
    add = next(s for lane in run["lanes"] for s in lane["spans"] if run["names"][s[3]] == "add")
    assert tuple(add[:2]) in spans
    assert f"{add[1] / 1000:.2f} \u00b5s" in browser.text("#details")
    browser.do("press", keys="-")
    browser.do("press", keys="-")
    (drawn,) = [b for b in boxes(browser) if b["words"].startswith("add")]
    ticks = browser.js("[...document.querySelectorAll('.axis line')].map((e) => e.getBoundingClientRect().left)")
    times = [float(t.split()[0].replace(",", "")) for t in browser.texts(".axis text")]
    scale = (ticks[1] - ticks[0]) / (times[1] - times[0])  # pixels a microsecond
    assert drawn["rect"][2] - drawn["rect"][0] == pytest.approx(scale * add[1] / 1000, abs=1.5)
    assert drawn["rect"][0] == pytest.approx(ticks[0] + scale * (add[0] / 1000 - times[0]), abs=2)


def test_a_run_shows_its_idle_device(browser: Browser, folder: Path) -> None:
    page = written(folder, "vit_run", "examples/vit", "--trace", "tests/fixtures/traces/vit.json")
    browser.open(page)
    browser.do("click", selector="#scale [data-value=measured]")
    value = data_of(page)["sides"][0]["measured"]
    device = sorted((s[0], s[0] + s[1]) for lane in value["lanes"] if not lane["host"] for s in lane["spans"])
    assert all(one[1] <= other[0] for one, other in pairwise(device)), "one stream: nothing runs beside anything"
    share = sum(e - s for s, e in device) / (device[-1][1] - device[0][0])
    assert f"{round(100 * share)} % busy" in browser.texts(".drawing text.small")
    told = sum(1 for lane in value["lanes"] for s in lane["spans"] if s[2] >= 0)
    assert told > 0.95 * sum(len(lane["spans"]) for lane in value["lanes"])


# ------------------------------------------------------------------------------------------------------------------- looks


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("contrast", ["no-preference", "more"])
def test_text_can_be_read_in_every_theme(browser: Browser, streams: Path, scheme: str, contrast: str) -> None:
    browser.open(streams, scheme=scheme, contrast=contrast)
    theme = ("contrast-" if contrast == "more" else "") + scheme
    assert browser.js("document.documentElement.dataset.theme") == theme
    found: dict[str, float] = {}
    for name in ("cudaMalloc", "add", "cudaEventRecord"):
        browser.do("click", selector=item(name))
        found.update(browser.js(CONTRASTS))
    assert {"host large", "launch large", "copy large", "event large", "wait large"} <= set(found)
    poor = {what: round(ratio, 2) for what, ratio in found.items() if ratio < 4.5}
    assert not poor


def test_the_theme_can_change(browser: Browser, streams: Path) -> None:
    browser.open(streams)
    light = browser.js("getComputedStyle(document.body).backgroundColor")
    browser.do("scheme", scheme="dark")
    assert browser.js("getComputedStyle(document.body).backgroundColor") != light


def test_a_narrow_view_has_everything(browser: Browser, streams: Path) -> None:
    browser.open(streams, width=420, height=700)
    drawing, search = browser.box(".drawing"), browser.box("#search")
    assert drawing["width"] > 300 and drawing["height"] > 150
    assert search["width"] > 80 and search["x"] + search["width"] <= 420


# -------------------------------------------------------------------------------------------------------------------- size


def test_two_thousand_operations_stay_usable(browser: Browser, folder: Path) -> None:
    page = folder / "many.html"
    page.write_text(to_html(Side(small_graph(2000)), title="many"), encoding="ascii")
    took = browser.open(page)
    assert took < 6000, f"{took} ms"
    assert len(browser.texts("#operations li")) == 2000
    assert browser.js("document.querySelectorAll('.drawing *').length") < 2000, "only what is seen is drawn"
    browser.do("press", keys="0")
    frame = browser.js(
        """new Promise((done) => { const began = performance.now(); let k = 0;
             const step = () => { dispatchEvent(new Event("none")); document.dispatchEvent(new KeyboardEvent("keydown", {key: k % 2 ? "+" : "-", bubbles: true}));
               if (++k < 20) requestAnimationFrame(step); else done((performance.now() - began) / 20); };
             requestAnimationFrame(step); })"""
    )
    assert frame < 250, f"{frame:.0f} ms a frame"
    browser.do("fill", selector="#search", text="buffer_1999")
    browser.do("press", keys="Enter")
    assert ":2000" in browser.text("#details")


def test_a_program_without_cuda_work(browser: Browser, folder: Path) -> None:
    page = folder / "empty.html"
    page.write_text(to_html(Side(ExecutionGraph((), (), ()))), encoding="ascii")
    browser.open(page)
    assert "No CUDA work" in browser.text(".stage-head")
