"""Suppressions: offered for each finding, undone by what is unknown or useless in them. The rules about such comments have tests of
their own (tests/server/test_project_settings.py, tests/pure/rules)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.client import REAL, editor_session
from tests.server.test_session import RACE, diagnostics

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
async def test_a10_a_finding_can_be_silenced_and_wrong_comments_are_told(client: str, tmp_path: Path) -> None:
    uri = (tmp_path / "race.cu").as_uri()
    async with editor_session(client, REAL, {"diagnosticsDelay": 0}, tmp_path) as editor:
        editor.open(uri, RACE)
        (race,) = await diagnostics(editor, uri, ["stream-race-raw"])
        offered = await editor.actions(uri, race.range, ["quickfix"])
        suppress = next(a for a in offered if a.title == "Suppress stream-race-raw on this line")
        assert not suppress.is_preferred and suppress.diagnostics
        resolved = await editor.client.code_action_resolve_async(suppress)
        assert resolved.edit is not None
        editor.apply(resolved.edit)
        silenced = editor.texts[uri]
        assert "// stitchcuda: ignore[stream-race-raw]\n" in silenced
        await diagnostics(editor, uri, [])
        editor.replace(uri, silenced.replace("ignore[stream-race-raw]", "ignore[stream-race-raw] both write the same"))
        await diagnostics(editor, uri, [])
        editor.replace(uri, silenced.replace("ignore[stream-race-raw]", "ignore[stream-race-row]"))
        unknown = [d for d in await diagnostics(editor, uri, ["stream-race-raw", "unknown-suppression"])]
        assert "stream-race-raw" in unknown[1].message
        editor.replace(uri, silenced.replace("0, b>>>", "0, a>>>"))
        (unused,) = await diagnostics(editor, uri, ["unused-suppression"])
        assert unused.tags
