"""The page of the execution graph in what an editor's web view looks like to it, and what it makes of hostile names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.graph.to_html import NONCE, Side, to_html

from tests.editor.graph_page.browser import Browser
from tests.editor.graph_page.shown import (
    ROOT,
    STREAMS,
    boxes,
    browser,
    data_of,
    folder,
    item,
    small_graph,
    streams,
    written,
)

__all__ = ["browser", "folder", "streams"]  # fixtures
pytestmark = pytest.mark.editor

DARK = {
    "--vscode-editor-background": "#101820",
    "--vscode-editor-foreground": "#e0e8f0",
    "--vscode-font-family": "DejaVu Sans",
}


def test_in_a_web_view_sources_open_in_the_editor(browser: Browser, folder: Path) -> None:
    file = folder / "view.html"
    text = written(folder, "absolute", str(ROOT / STREAMS)).read_text(encoding="ascii")
    assert NONCE in text
    file.write_text(text.replace(NONCE, "r4nd0m"), encoding="ascii")
    browser.open(file, editor="vscode-dark", variables=DARK)
    browser.do("click", selector=item("add"))
    browser.do("click", selector="#details [data-source]")
    add = next(n for n in data_of(file)["sides"][0]["nodes"] if n["kernel"] == "add")
    opened = {"command": "open", "path": str(ROOT / STREAMS), "line": add["line"], "column": add["column"]}
    assert browser.js("window.posted") == [opened]
    line = (ROOT / STREAMS).read_text().split("\n")[add["line"] - 1]
    assert line[add["column"] - 1 :].startswith("add<<<")
    browser.js("document.querySelector('.drawing').focus()")
    browser.do("press", keys="Enter")
    assert browser.js("window.posted") == [opened, opened]
    assert browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(16, 24, 32)"
    assert browser.js("document.documentElement.dataset.theme") == "dark"
    browser.js(f"window.postMessage({{command: 'reveal', path: {str(ROOT / STREAMS)!r}, line: {add['line']}}})")
    assert "add<<<" in browser.text("#details h2")


def test_a_page_that_replaces_another_goes_on_where_it_was(browser: Browser, streams: Path) -> None:
    browser.open(streams, editor="vscode-light")
    browser.do("click", selector="#scale [data-value=measured]")
    browser.do("click", selector=item("add"))
    browser.do("press", keys="z")
    seen = boxes(browser)
    browser.js("new Promise((done) => setTimeout(done, 300))")
    kept = browser.js("window.keptState")
    browser.open(streams, editor="vscode-light", kept=kept)
    assert browser.js("document.querySelector('#scale [aria-checked=true]').dataset.value") == "measured"
    assert "add<<<" in browser.text("#details h2")
    assert boxes(browser) == seen
    for broken in ({"views": [None, 3], "selected": {"side": ""}, "scale": 7, "version": "x", "name": 5}, "text", 4):
        browser.open(streams, editor="vscode-light", kept=broken)
        assert browser.js("document.querySelector('#scale [aria-checked=true]').dataset.value") == "order"


def test_the_cursor_does_not_change_which_way_to_a_line_is_chosen(browser: Browser, folder: Path) -> None:
    page = written(folder, "vit_alone", str(ROOT / "examples" / "vit"))
    browser.open(page, editor="vscode-light")
    nodes = data_of(page)["sides"][0]["nodes"]
    launches = [n for n in nodes if n["kernel"] == "linear_kernel"]
    assert len({(n["path"], n["line"]) for n in launches}) < len(launches)
    browser.do("click", selector=f'#operations li[data-node="{launches[2]["id"]}"]')
    place = {"command": "reveal", "path": launches[2]["path"], "line": launches[2]["line"]}
    browser.js(f"window.postMessage({json.dumps(place)})")
    assert browser.js("document.querySelector('#operations li[aria-selected=true]').dataset.node") == launches[2]["id"]
    other = next(n for n in nodes if n["kernel"] == "softmax_kernel")
    browser.js(f"window.postMessage({json.dumps({**place, 'path': other['path'], 'line': other['line']})})")
    assert "softmax_kernel" in browser.text("#details h2")


def test_only_scripts_with_the_nonce_run(browser: Browser, streams: Path) -> None:
    browser.open(streams)
    browser.js(
        """(() => { const s = document.createElement("script"); s.textContent = "window.ran = true"; document.body.append(s);
                    document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.ran = true'>"); })()"""
    )
    assert browser.js("window.ran === undefined")
    assert any("Content Security Policy" in line for line in browser.do("said"))


HOSTILE = "</script><script>window.ran=1</script><img src=x onerror=window.ran=1>\u2028\u2029\"'`${1}&lt;__STITCHCUDA_NONCE__\x00\udc80"


def test_hostile_names_are_only_text(browser: Browser, folder: Path) -> None:
    node = small_graph(1).nodes[0]
    hostile = replace(
        node,
        kernel=HOSTILE,
        path=f"/tmp/{HOSTILE}.cu",
        function=HOSTILE,
        stream=HOSTILE,
        condition=HOSTILE,
        reads=(HOSTILE,),
        entry=HOSTILE,
    )
    page = folder / "hostile.html"
    page.write_text(to_html(Side(ExecutionGraph((hostile,), (), ())), title=HOSTILE), encoding="ascii")
    browser.open(page)
    browser.do("press", keys="n")
    assert "window.ran=1" in browser.text("#details h2")
    assert browser.js("window.ran === undefined && document.images.length === 0")
