"""All safe fixes of a file at once: the same bytes as `check --fix`, on the text that the editor has."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types as t
from stitchcuda.server.cli.dispatch import main

from tests.cli.test_fix import TWICE
from tests.server.client import REAL, Editor, editor_session
from tests.server.test_program_jobs import RANGE

pytestmark = pytest.mark.asyncio

NOW = {"diagnosticsDelay": 0}
TEXT = "// 😀 two streams\n" + TWICE


def fixed(file: Path) -> str:
    """What the command line makes of it."""
    assert main(["check", str(file), "--fix"]) == 0
    return file.read_text(encoding="utf-8")


async def fix_all_of(editor: Editor, uri: str) -> t.CodeAction:
    for _ in range(1000):
        found = await editor.actions(uri, RANGE, ["source.fixAll"])
        if found:
            (action,) = found
            return action
        await asyncio.sleep(0.02)
    raise AssertionError("nothing is offered")


@pytest.mark.parametrize("client", ["visual_studio_code", "neovim"])
async def test_a8_fix_all_is_what_check_fix_does(client: str, tmp_path: Path) -> None:
    file = tmp_path / "a.cu"
    file.write_text("// not what is on the screen\n", encoding="utf-8")
    uri = file.as_uri()
    async with editor_session(client, REAL, NOW, tmp_path) as editor:
        editor.open(uri, TEXT)
        action = await fix_all_of(editor, uri)
        assert action.kind == "source.fixAll.stitchcuda" and action.edit is None and not action.is_preferred
        for only in (["source.fixAll.stitchcuda"], ["source"]):
            assert action.title in [a.title for a in await editor.actions(uri, RANGE, only)]
        for only in (["source.fixAll.other"], ["source.organizeImports"], ["quickfix"]):
            assert action.title not in [a.title for a in await editor.actions(uri, RANGE, only)]
        whole = t.Range(start=t.Position(line=0, character=0), end=t.Position(line=99, character=0))
        fixes = await editor.actions(uri, whole, ["quickfix"])
        assert len(fixes) > 2 and sum(bool(a.is_preferred) for a in fixes) == 1
        assert all(a.kind == t.CodeActionKind.QuickFix and a.diagnostics and a.edit is None for a in fixes)
        resolved = await editor.client.code_action_resolve_async(action)
        assert resolved.edit is not None
        editor.apply(resolved.edit)
        file.write_text(TEXT, encoding="utf-8")
        assert editor.texts[uri] == fixed(file) != TEXT

        editor.replace(uri, TEXT)
        assert await editor.command("stitchcuda.fixAll", uri) is True
        assert editor.texts[uri] == file.read_text(encoding="utf-8")
        assert await editor.command("stitchcuda.fixAll", uri) is False
        with pytest.raises(Exception, match=r"stitchcuda\.fixAll takes the URI of an open file"):
            await editor.command("stitchcuda.fixAll", "file:///none.cu")


async def test_what_is_ignored_is_not_fixed_and_nothing_to_fix_is_not_offered(tmp_path: Path) -> None:
    uri = (tmp_path / "a.cu").as_uri()
    async with editor_session("plain", REAL, {**NOW, "ignore": ["stream-race-raw"]}, tmp_path) as editor:
        editor.open(uri, TEXT)
        await editor.pushed_for(uri, lambda items: "stream-race-raw" not in [d.code for d in items])
        assert await editor.actions(uri, RANGE, ["source.fixAll"]) == []
        assert await editor.command("stitchcuda.fixAll", uri) is False and editor.texts[uri] == TEXT
        editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings={"ignore": []}))
        action = await fix_all_of(editor, uri)  # such a client cannot resolve: the action is a command
        assert action.command is not None and action.command.command == "stitchcuda.fixAll"
        assert await editor.command(action.command.command, *(action.command.arguments or ())) is True
        assert editor.texts[uri].count("cudaStreamWaitEvent(") == 2
