"""An open stitchcuda.toml: mistakes where they stand, and completion; a program's own file elsewhere is not ours to complete."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as t
from stitchcuda.analysis.contract.project_text import KEYS
from stitchcuda.analysis.rules import BY_CODE

from tests.server.client import FAKE, Editor, editor_session, until

pytestmark = pytest.mark.asyncio

WRONG = """\
# 😀 what is wrong here
[run]
timeout = "soon"  # 😀
colour = 1
[check]
select = ["correctness", "leek"]
[nothing]
"""
TRIED = "‸"


async def diagnostics(editor: Editor, uri: str, count: int) -> list[t.Diagnostic]:
    text = editor.capabilities.text_document
    workspace: Any = editor.capabilities.workspace
    if text is not None and text.diagnostic is not None and workspace.diagnostics is not None:
        return await editor.pull(uri)
    return await editor.pushed_for(uri, lambda items: len(items) == count)


async def completed(editor: Editor, uri: str, text: str) -> dict[str, str]:
    """By label the text after taking it; the cursor stands at the mark."""
    before, after = text.split(TRIED)
    editor.replace(uri, before + after)
    line = before.rsplit("\n", 1)[-1]
    units = len(line.encode()) if editor.encoding == "utf-8" else len(line.encode("utf-16-le")) // 2
    params = t.CompletionParams(
        text_document=t.TextDocumentIdentifier(uri=uri),
        position=t.Position(line=before.count("\n"), character=units),
    )
    found = await editor.client.text_document_completion_async(params)
    taken = {}
    for item in found if isinstance(found, list | tuple) else []:
        assert isinstance(item, t.CompletionItem) and isinstance(item.text_edit, t.TextEdit)
        start, end = (editor.offset(uri, p) for p in (item.text_edit.range.start, item.text_edit.range.end))
        taken[item.label] = (before + after)[:start] + item.text_edit.new_text + (before + after)[end:]
    return taken


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code", "vscode"])
async def test_mistakes_stand_where_they_are_and_go_when_they_are_put_right(client: str, tmp_path: Path) -> None:
    uri = (tmp_path / "stitchcuda.toml").as_uri()
    async with editor_session(client, FAKE, {"diagnosticsDelay": 0}, tmp_path) as editor:
        editor.open(uri, WRONG, "toml")
        found = await diagnostics(editor, uri, 4)
        assert [(editor.at(uri, d.range), d.message.split(";")[0]) for d in found] == [
            ('"soon"', "run.timeout: expected seconds, above 0 and at most 86400, found 'soon'"),
            ("1", "run.colour: unknown"),
            ('["correctness", "leek"]', "check.select: no finding has the code 'leek'"),
            ("nothing", "nothing: unknown"),
        ]
        assert {(d.source, d.code, d.severity) for d in found} == {("stitchcuda", "stitchcuda-toml", 1)}
        for each in found:
            assert each.code_description is not None
            assert Path(each.code_description.href.removeprefix("file://")).is_file()
        editor.replace(uri, "[run]\ntimeout = \n")
        (syntax,) = await diagnostics(editor, uri, 1)
        assert syntax.message.startswith("not valid TOML") and editor.at(uri, syntax.range) == "timeout ="
        editor.replace(uri, "[run]\ntimeout = 5\n")
        assert await diagnostics(editor, uri, 0) == []
        assert not editor.messages, "what stands in the file is not told in a popup as well"


async def test_completion(tmp_path: Path) -> None:
    toml, source = (tmp_path / "stitchcuda.toml").as_uri(), (tmp_path / "a.cu").as_uri()
    async with editor_session("visual_studio_code", FAKE, {"diagnosticsDelay": 0}, tmp_path) as editor:
        editor.open(source, "void f() { k<<<1, 2>>>(x); }\n")
        editor.open(toml, "", "toml")

        async def at(text: str) -> dict[str, str]:
            return await completed(editor, toml, text)

        assert list(await at("‸")) == [f"[{name}]" for name in KEYS]
        sections = await at("[run]\n[ch‸]\n")
        assert set(sections) == set(KEYS) - {"run"} and sections["check"] == "[run]\n[check]\n"
        keys = await at("[run]\ntimeout = 5\ndir‸\nseeds = [1]\n")
        assert set(keys) == set(KEYS["run"]) - {"timeout", "seeds"}
        assert keys["directory"] == "[run]\ntimeout = 5\ndirectory = \nseeds = [1]\n"
        buffers = await at("[observe]\nbuffers = ‸")
        assert buffers == {"host": '[observe]\nbuffers = "host"', "none": '[observe]\nbuffers = "none"'}
        assert (await at('[observe]\nbuffers = "no‸"'))["none"] == '[observe]\nbuffers = "none"'
        assert list(await at("[build]\nincremental = t‸")) == ["true", "false"]
        assert await at("[run]\ntimeout = ‸") == {}
        for text in ('[check]\nselect = ["leak", "‸"]', '[check]\nselect = [\n  "leak",\n  "‸"\n]'):
            words = await at(text)
            assert {"all", "correctness", *BY_CODE} <= set(words) and words["leak"] == text.replace(TRIED, "leak")
        severities = await at("[check.severity]\nleak = ‸")
        assert list(severities) == ["error", "warning", "hint", "off"]
        assert set(await at("[check]\nseverity = { lea‸ }")) == set(BY_CODE)
        assert "off" in await at('[check]\nseverity = { leak = "‸" }')
        for _ in range(200):
            names = await at('[contract]\nscope = ["‸"]')
            if names:
                break
            await asyncio.sleep(0.02)
        assert names == {"f": '[contract]\nscope = ["f"]'}

        params = t.CompletionParams(
            text_document=t.TextDocumentIdentifier(uri=source), position=t.Position(line=0, character=4)
        )
        assert await editor.client.text_document_completion_async(params) is None


async def test_what_the_buffer_says_counts_when_it_is_saved(tmp_path: Path) -> None:
    """The popup about a mistake comes for a file that is not open."""
    (tmp_path / "stitchcuda.toml").write_text("[check]\ncolour = 1\n", encoding="utf-8")
    source = (tmp_path / "a.cu").as_uri()
    async with editor_session("visual_studio_code", FAKE, {"diagnosticsDelay": 0}, tmp_path) as editor:
        editor.open(source, "void f() { hazard(x); }\n")
        await editor.pushed_for(source, lambda items: len(items) == 1)
        await until(lambda: any("check.colour: unknown" in m for m in editor.messages))
