"""A7: columns count in the units that were agreed on, also behind characters of more than one unit."""

from __future__ import annotations

import pytest
from lsprotocol import types as t

from tests.server.client import REAL, capabilities_of, editor_session
from tests.server.test_session import RACE

pytestmark = pytest.mark.asyncio

URI = "file:///project/race.cu"
BEFORE = {"utf-8": len("  /* 😀 */ ".encode()), "utf-16": len("  /* 😀 */ ".encode("utf-16-le")) // 2}


@pytest.mark.parametrize(
    ("client", "encoding"),
    [("neovim", "utf-8"), ("visual_studio_code", "utf-16"), ("vscode", "utf-16"), ("bare", "utf-16")],
)
async def test_a7_ranges_in_and_out_are_in_the_units_agreed_on(client: str, encoding: str) -> None:
    """Out: the range of a finding behind an emoji. In: hover at that place, and an edit behind another emoji of the line."""
    assert BEFORE["utf-8"] == BEFORE["utf-16"] + 2
    async with editor_session(client, REAL, {"diagnosticsDelay": 0}) as editor:
        assert editor.encoding == encoding
        offered = capabilities_of(client).general
        if offered is not None and offered.position_encodings:
            assert encoding in [getattr(e, "value", e) for e in offered.position_encodings]
        editor.open(URI, RACE)
        (race,) = (
            await editor.pushed_for(URI, lambda items: len(items) == 1) if not editor.pulls else await editor.pull(URI)
        )
        assert race.range.start.character == BEFORE[encoding]
        assert editor.at(URI, race.range) == "consume<<<4, 256, 0, b>>>(x, y, n)"
        at = t.HoverParams(text_document=t.TextDocumentIdentifier(uri=URI), position=race.range.start)
        shown = await editor.client.text_document_hover_async(at)
        assert shown is not None and shown.range == race.range

        # Put a wait before the launch, at the column behind the emoji.
        start = race.range.start
        editor.edit(URI, t.Range(start, start), "/* 🐢 */ cudaDeviceSynchronize(); ")
        found = await editor.pushed_for(URI, lambda items: not items) if not editor.pulls else await editor.pull(URI)
        assert [d.code for d in found] == []
