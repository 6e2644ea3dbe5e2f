"""Findings that are known for good are shown while the analysis goes on, those of the current text alone, and the rest follows."""

from __future__ import annotations

import asyncio

import pytest
from lsprotocol import types as t

from tests.server.client import editor_session, until

URI = "file:///project/a.cu"
TEXT = "void f() { hazard(x); LATER hazard(y); }\n" + "// long\n" * 4000
NOW = {"diagnosticsDelay": 0}

pytestmark = pytest.mark.asyncio


def lists(pushed: list[t.PublishDiagnosticsParams], version: int) -> list[int]:
    return [len(p.diagnostics) for p in pushed if p.version == version]


async def test_the_first_ones_are_pushed_while_the_rest_is_looked_for() -> None:
    async with editor_session(options=NOW) as editor:
        editor.open(URI, TEXT)
        (first,) = await editor.pushed_for(URI, lambda items: len(items) == 1)
        assert editor.at(URI, first.range) == "hazard(x)"
        actions = await editor.actions(URI, first.range, ["quickfix"])
        assert [a.title for a in actions][:1] == ["Make it safe"], "they can be mended already"
        both = await editor.pushed_for(URI, lambda items: len(items) == 2)
        assert first in both, "what was shown is the same later"
        await asyncio.sleep(0.3)
        assert lists(editor.pushed, 1) == [1, 2], "each list is told once"


async def test_a_client_that_pulls_gets_the_first_ones_and_is_asked_to_pull_again() -> None:
    async with editor_session("vscode", options=NOW) as editor:
        editor.open(URI, TEXT)
        (first,) = await editor.pull(URI)
        await until(lambda: editor.refreshes > 0)
        both = await editor.pull(URI)
        assert len(both) == 2 and first in both
        assert not [p for p in editor.pushed if p.diagnostics], "a finding came through both channels"


@pytest.mark.parametrize("client", ["visual_studio_code", "vscode"])
async def test_what_was_found_in_an_older_text_is_never_told_of_a_newer_one(client: str) -> None:
    async with editor_session(client, options=NOW) as editor:
        editor.open(URI, TEXT)
        for _ in range(5):
            await asyncio.sleep(0.05)
            editor.replace(URI, editor.texts[URI].replace("hazard(x)", " hazard(x)", 1))
        editor.replace(URI, "void f() { hazard(z); }\n")
        if editor.pulls:
            (only,) = await editor.pull(URI)
        else:
            (only,) = await editor.pushed_for(URI, lambda items: len(items) == 1)
        assert editor.at(URI, only.range) == "hazard(z)"
        await asyncio.sleep(0.3)
        for pushed in editor.pushed:
            assert pushed.version is not None and len(pushed.diagnostics) in (0, 1)
            columns = [d.range.start.character for d in pushed.diagnostics]
            assert columns in ([], [10 + pushed.version] if pushed.version < 7 else [11])


async def test_the_text_can_be_closed_meanwhile() -> None:
    async with editor_session(options=NOW) as editor:
        editor.open(URI, TEXT)
        await editor.pushed_for(URI, lambda items: len(items) == 1)
        editor.close(URI)
        await until(lambda: editor.pushed[-1].version is None)
        await asyncio.sleep(1.2)
        assert not editor.pushed[-1].diagnostics, "and stays closed"
