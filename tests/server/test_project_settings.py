"""In the editor: comments about findings, and what `[check]` of stitchcuda.toml says."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types as t

from tests.server.client import REAL, Editor, editor_session, until
from tests.server.test_session import NOW, RACE, diagnostics

pytestmark = pytest.mark.asyncio
FIXED = RACE.replace("consume<<<4, 256, 0, b>>>", "consume<<<4, 256, 0, a>>>")


async def test_useless_comments_are_faded_and_deleted(tmp_path: Path) -> None:
    uri = (tmp_path / "race.cu").as_uri()
    comment = "  // stitchcuda: ignore[stream-race-raw, no-such-code] 😀"
    async with editor_session("neovim", REAL, options=NOW) as editor:
        editor.open(uri, FIXED.replace("(x, y, n);", f"(x, y, n);{comment}"))
        found = await diagnostics(editor, uri, ["unused-suppression", "unknown-suppression"])
        assert [editor.at(uri, d.range) for d in found] == ["stream-race-raw", "no-such-code"]
        assert [list(d.tags or ()) for d in found] == [[t.DiagnosticTag.Unnecessary]] * 2
        assert all(d.severity == t.DiagnosticSeverity.Hint for d in found)
        actions = await editor.actions(uri, found[0].range)
        assert not [a for a in actions if a.title.startswith("Suppress")]
        await apply(editor, next(a for a in actions if a.title == "Take stream-race-raw out of the list"))
        (left,) = await diagnostics(editor, uri, ["unknown-suppression"])
        await apply(editor, next(a for a in await editor.actions(uri, left.range) if a.title == "Delete the comment"))
        await diagnostics(editor, uri, [])
        assert editor.texts[uri] == FIXED


async def apply(editor: Editor, action: t.CodeAction) -> None:
    resolved = await editor.client.code_action_resolve_async(action)
    assert resolved.edit is not None
    editor.apply(resolved.edit)


@pytest.mark.parametrize("name", ["neovim", "visual_studio_code"])
async def test_the_project_file_is_honoured_and_read_again(tmp_path: Path, name: str) -> None:
    source, project = tmp_path / "race.cu", tmp_path / "stitchcuda.toml"
    source.write_text(RACE)
    project.write_text('[check]\nseverity = { stream-race-raw = "warning" }\n')
    uri = source.as_uri()
    async with editor_session(name, REAL, options=NOW) as editor:
        editor.open(uri, RACE)
        (race,) = await diagnostics(editor, uri, ["stream-race-raw"])
        assert race.severity == t.DiagnosticSeverity.Warning
        for text in ('ignore = ["correctness"]', 'exclude = ["race.cu"]', 'select = ["performance"]'):
            project.write_text(f"[check]\n{text}\n")
            saved(editor, project)
            await diagnostics(editor, uri, [])
            project.write_text("")
            saved(editor, project)
            await diagnostics(editor, uri, ["stream-race-raw"])


def saved(editor: Editor, path: Path) -> None:
    change = t.FileEvent(uri=path.as_uri(), type=t.FileChangeType.Changed)
    editor.client.workspace_did_change_watched_files(t.DidChangeWatchedFilesParams(changes=[change]))


async def test_a_mistake_in_it_is_told_once_and_the_rest_counts(tmp_path: Path) -> None:
    source = tmp_path / "race.cu"
    source.write_text(RACE)
    (tmp_path / "stitchcuda.toml").write_text(
        '[check]\nseverity = { stream-race-raw = "hint" }\nignore = ["redundant-sink"]\nselct = []\n'
    )
    async with editor_session("neovim", REAL, options=NOW) as editor:
        editor.open(source.as_uri(), RACE)
        (race,) = await diagnostics(editor, source.as_uri(), ["stream-race-raw"])
        assert race.severity == t.DiagnosticSeverity.Hint
        told = await until(lambda: [m for m in editor.messages if "stitchcuda.toml" in m] or None)
        assert len(told) == 1
        assert "check.selct: unknown" in told[0]
        assert "no finding has the code 'redundant-sink'; did you mean redundant-sync?" in told[0]


async def test_settings_of_the_editor_go_first(tmp_path: Path) -> None:
    source = tmp_path / "race.cu"
    source.write_text(RACE)
    (tmp_path / "stitchcuda.toml").write_text(
        '[check]\nseverity = { stream-race-raw = "hint" }\nselect = ["performance"]\n'
    )
    options = {**NOW, "select": ["correctness"], "severity": {"stream-race-raw": "information"}}
    async with editor_session("neovim", REAL, options=options) as editor:
        editor.open(source.as_uri(), RACE)
        (race,) = await diagnostics(editor, source.as_uri(), ["stream-race-raw"])
        assert race.severity == t.DiagnosticSeverity.Information
