"""`stitchcuda.graphText` as a page, with the real analysis behind it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.server.client import REAL, editor_session
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
        assert await editor.command("stitchcuda.graphText", path.as_uri(), "nothing", "html") is None


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
