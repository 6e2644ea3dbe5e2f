"""A6: the server's text is the client's, whatever is typed: line ends of all kinds, characters that other programs take for line
ends, characters of two units, hundreds of ranges at once."""

from __future__ import annotations

import os
import random
import time
from hashlib import sha256
from pathlib import Path

import pytest
from lsprotocol import types as t
from stitchcuda.analysis.syntax.text import Change, Position
from stitchcuda.server.documents import Documents

from tests.server.client import Editor, editor_session
from tests.server.test_text import PIECES, ClientText

URI = "file:///project/a.cu"
SEED = random.randrange(1 << 30) if os.environ.get("STITCHCUDA_FUZZ") else 6


@pytest.mark.asyncio
@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
async def test_a6_the_servers_text_is_the_clients(client: str) -> None:
    """About 3,000 random changes; the client keeps code units and finds lines by walking over them."""
    rng = random.Random(SEED)
    async with editor_session(client, options={"diagnosticsDelay": 60_000}) as editor:
        assert editor.encoding == ("utf-8" if client == "neovim" else "utf-16")
        encoding = "utf-8" if client == "neovim" else "utf-16"
        for _ in range(12):
            text = "".join(rng.choices(PIECES, k=rng.choice((0, 3, 40, 200))))
            mine = ClientText(text, "utf-8" if encoding == "utf-8" else "utf-16")
            editor.open(URI, mine.text)
            for step in range(24):
                batch = 200 if step == 12 else rng.choice((1, 1, 2, 5))
                _send(editor, [mine.random_change(rng) for _ in range(batch)])
                if step % 6 == 5:
                    await _same(editor, mine.text)
            _send(editor, [Change(None, None, "\f" + text)])
            await _same(editor, "\f" + text)
            editor.close(URI)


def _send(editor: Editor, changes: list[Change]) -> None:
    editor.versions[URI] += 1
    sent: list[t.TextDocumentContentChangeEvent] = []
    for change in changes:
        if change.start is None or change.end is None:
            sent.append(t.TextDocumentContentChangeWholeDocument(text=change.text))
        else:
            ends = [t.Position(line=p.line, character=p.column) for p in (change.start, change.end)]
            sent.append(t.TextDocumentContentChangePartial(range=t.Range(start=ends[0], end=ends[1]), text=change.text))
    identifier = t.VersionedTextDocumentIdentifier(uri=URI, version=editor.versions[URI])
    editor.client.text_document_did_change(
        t.DidChangeTextDocumentParams(text_document=identifier, content_changes=sent)
    )


async def _same(editor: Editor, text: str) -> None:
    known = (await editor.command("stitchcuda.status"))["texts"][URI]
    assert known == {"version": editor.versions[URI], "sha256": sha256(text.encode()).hexdigest()}


@pytest.mark.asyncio
@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
@pytest.mark.parametrize(
    "kept", ["a = 1;\r\n// 😀\r\nb\r\n", "a = 1;\r// 😀\rb\r", "a = 1;\n// 😀\nb"], ids=["dos", "mac", "no-end"]
)
async def test_a6_line_ends_that_only_the_file_tells(tmp_path: Path, client: str, kept: str) -> None:
    """Editors do not tell of `:set fileformat=dos` and the like; a job would be refused for ever for text that is not saved."""
    file = tmp_path / "a.cu"
    uri = file.as_uri()
    async with editor_session(client, options={"diagnosticsDelay": 0}, root=tmp_path) as editor:
        editor.open(uri, "a = 1;\n// 😀\nb\n")

        async def after(text: str) -> bool:
            """Whether a save of that text makes it the server's."""
            file.write_bytes(text.encode())
            saved = t.DidSaveTextDocumentParams(text_document=t.TextDocumentIdentifier(uri=uri))
            editor.client.text_document_did_save(saved)
            known = (await editor.command("stitchcuda.status"))["texts"][uri]
            return bool(known["sha256"] == sha256(text.encode()).hexdigest())

        assert not await after("something else\n"), "text that another program wrote is not the editor's"
        assert await after(kept)
        editor.texts[uri] = "a = 1;\n// 😀\nb\n"
        editor.edit(uri, t.Range(editor.find(uri, "b"), editor.find(uri, "b")), "hazard(x)")
        assert await after(kept.replace("b", "hazard(x)b"))
        (found,) = await editor.pushed_for(uri, lambda items: len(items) == 1)
        assert found.range.start == t.Position(line=2, character=0)


def test_a6_a_key_and_two_hundred_ranges_in_a_long_file() -> None:
    """Processor time of the store alone: far below what is promised for the whole on any machine that runs tests."""
    store = Documents("utf-16")
    document = store.open(URI, "cuda", 0, "  out[i] = in[i] * 1.5f;  // 😀 \n" * 50_000)
    lines = len(document.lines)
    for ranges, seconds in ((1, 0.01), (200, 0.2)):
        took = []
        for version in range(1, 8):
            places = [(version * 7919 + i * 104_729) % lines for i in range(ranges)]
            changes = [Change(Position(line, 2), Position(line, 3), "x\n") for line in places]
            began = time.process_time()
            assert store.change(URI, ranges * 100 + version, changes) is not None
            took.append(time.process_time() - began)
        assert min(took) < seconds, f"{ranges} ranges: {took}"
