"""A5: `diagnosticsDelay` after the last keystroke, or at the next save (`diagnosticsTrigger`)."""

from __future__ import annotations

import asyncio
import time

import pytest
from lsprotocol import types as t

from tests.server.client import editor_session, until

pytestmark = pytest.mark.asyncio

URI = "file:///project/a.cu"
HAZARD = "void f() { hazard(x); }\n"


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
async def test_a5_a_burst_of_keys_is_analysed_once_after_the_delay(client: str) -> None:
    async with editor_session(client, options={"diagnosticsDelay": 700}) as editor:
        editor.open(URI, HAZARD)
        await editor.pushed_for(URI, lambda items: len(items) == 1)
        told = len(editor.pushed)
        for _ in range(5):
            editor.edit(URI, t.Range(t.Position(0, 0), t.Position(0, 0)), " ")
            await asyncio.sleep(0.02)
        last = time.monotonic()
        await until(lambda: len(editor.pushed) > told)
        assert time.monotonic() - last > 0.6, "before the delay was over"
        assert [p.version for p in editor.pushed[told:]] == [6]


async def test_a5_a_delay_that_is_changed_counts_from_the_next_key() -> None:
    async with editor_session(options={"diagnosticsDelay": 60_000}, configuration={}) as editor:
        editor.open(URI, HAZARD)
        await editor.pushed_for(URI, lambda items: len(items) == 1)
        editor.client._configuration[""] = {"stitchcuda": {"diagnosticsDelay": 0}}
        editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings=None))
        await editor.command("stitchcuda.status")
        editor.replace(URI, "void f() {}\n")
        await editor.pushed_for(URI, lambda items: not items)


@pytest.mark.parametrize("client", ["neovim", "vscode"])
async def test_a5_with_the_trigger_save_edits_wait_for_it(client: str) -> None:
    async with editor_session(client, options={"diagnosticsTrigger": "save", "diagnosticsDelay": 0}) as editor:
        editor.open(URI, HAZARD)
        await _shown(editor, 1)
        editor.replace(URI, "void f() {}\n")
        await asyncio.sleep(0.4)
        newest = await editor.shown(URI)
        # A pull is answered with what is known, where nothing of it was touched; a push is not made at all.
        assert editor.pulls or len(newest) == 1 and editor.pushed[-1].version == 1
        identifier = t.TextDocumentIdentifier(uri=URI)
        editor.client.text_document_did_save(t.DidSaveTextDocumentParams(text_document=identifier))
        await _shown(editor, 0)


async def _shown(editor: object, count: int) -> None:
    from tests.server.client import Editor

    assert isinstance(editor, Editor)
    for _ in range(500):
        if len(await editor.shown(URI)) == count:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not {count}")
