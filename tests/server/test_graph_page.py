"""`stitchcuda.graphText` as a page, with the real analysis behind it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from pygls.exceptions import JsonRpcException
from stitchcuda.agent import journal

from tests.server.client import REAL, Editor, editor_session
from tests.server.test_session import NOW, RACE


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None
    value: dict[str, Any] = json.loads(found[1])
    return value


@pytest.mark.asyncio
async def test_the_page_has_the_open_text_and_its_findings(tmp_path: Path) -> None:
    path = tmp_path / "race.cu"
    async with editor_session("visual_studio_code", REAL, options=NOW) as editor:
        editor.open(path.as_uri(), RACE)
        page = await editor.command("stitchcuda.graphText", path.as_uri(), "", "html")
        (side,) = data_of(page)["sides"]
        assert {n["path"] for n in side["nodes"]} == {str(path)}, "absolute, so that the editor can open it"
        (race,) = [h for h in side["hazards"] if h["code"] == "stream-race-raw"]
        assert {"produce", "consume"} <= {side["nodes"][n]["kernel"] for n in race["nodes"]}
        page = await editor.command("stitchcuda.graphText", path.as_uri(), "main", "html")
        assert data_of(page)["function"] == "main"
        for form in ("html", "text"):
            with pytest.raises(JsonRpcException, match="^no function 'nothing' with a body in race.cu$"):
                await editor.command("stitchcuda.graphText", path.as_uri(), "nothing", form)


@pytest.mark.asyncio
@pytest.mark.parametrize(("form", "external"), [("html", True), ("svg", False)])
async def test_a_page_is_opened_outside_of_the_editor(tmp_path: Path, form: str, external: bool) -> None:
    uri = (tmp_path / "race.cu").as_uri()
    async with editor_session("visual_studio_code", REAL, options=NOW) as editor:
        editor.open(uri, RACE)
        text = await editor.command("stitchcuda.graphText", uri, "", form, True)
        (shown,) = editor.client.shown_documents
        assert shown.external is external
        file = Path(unquote(urlsplit(shown.uri).path))
        assert file.suffix == f".{form}" and file.read_text(encoding="utf-8") == text


TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
STREAMS = TRACES / "programs" / "streams.cu"


async def opened(editor: Editor, path: Path) -> str:
    editor.open(path.as_uri(), path.read_text(encoding="utf-8"))
    return path.as_uri()


@pytest.mark.asyncio
async def test_a_measured_run_stands_below_the_graph_and_on_the_page(tmp_path: Path) -> None:
    program = tmp_path / "traces" / "programs" / "streams.cu"  # as where it was traced
    program.parent.mkdir(parents=True)
    program.write_text(STREAMS.read_text(encoding="utf-8"), encoding="utf-8")
    (program.parent / "run.json").write_bytes((TRACES / "streams.json").read_bytes())
    async with editor_session("visual_studio_code", REAL, options=NOW, root=tmp_path) as editor:
        uri = await opened(editor, program)
        for trace in (str(TRACES / "streams.json"), "run.json"):
            text = await editor.command("stitchcuda.graphText", uri, "", "text", False, trace)
            order, _, run = text.partition("\n\nMeasured on NVIDIA H200 (")
            assert "In short:" in order
            assert "  stream first: 1 kernel, 1 copy, 10.2 us busy" in run
            assert "`scale` on stream first (streams.cu:29)" in run
        page = await editor.command("stitchcuda.graphText", uri, "", "html", False, "run.json")
        (side,) = data_of(page)["sides"]
        assert side["measured"]["lanes"][0]["title"] == "host"
        with pytest.raises(JsonRpcException, match="^.*gone.json: cannot be read"):
            await editor.command("stitchcuda.graphText", uri, "", "text", False, "gone.json")
        with pytest.raises(JsonRpcException, match="streams.cu: it is not JSON; make it with: stitchcuda trace"):
            await editor.command("stitchcuda.graphText", uri, "", "text", False, str(program))
        with pytest.raises(JsonRpcException, match="a trace is shown as text or html only"):
            await editor.command("stitchcuda.graphText", uri, "", "svg", False, "run.json")


@pytest.mark.asyncio
async def test_the_run_of_the_newest_stitch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a run of *Stitch* keeps it; a later one that measured nothing does not hide it, nor does one of another program."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "traces" / "programs" / "streams.cu"  # as where it was traced
    program.parent.mkdir(parents=True)
    program.write_text(STREAMS.read_text(encoding="utf-8"), encoding="utf-8")
    async with editor_session("visual_studio_code", REAL, options=NOW, root=tmp_path) as editor:
        uri = await opened(editor, program)
        with pytest.raises(JsonRpcException, match="^no run of streams.cu is kept that measured it: stitch it"):
            await editor.command("stitchcuda.graphText", uri, "", "text", False, "run")
        for root, trace in ((program, "streams.json"), (program, None), (tmp_path / "other.cu", "vit.json")):
            run = journal.start(root, stitchcuda="0", folder=tmp_path / "cache" / "stitchcuda" / "runs")
            if trace is not None:
                run.trace(json.loads((TRACES / trace).read_bytes()))
        text = await editor.command("stitchcuda.graphText", uri, "", "text", False, "run")
        assert "`scale` on stream first (streams.cu:29)" in text
