"""On-save validation with the real server on a real GPU: a slower kernel is shown on its launch, and its fix clears it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types as t

from tests.server.client import REAL, Editor, editor_session, until

pytestmark = [pytest.mark.gpu, pytest.mark.nvcc, pytest.mark.asyncio]

PROGRAM = Path(__file__).parent / "programs" / "spin.cu"
SECONDS = 120.0


def save(editor: Editor, uri: str, path: Path, text: str) -> None:
    if editor.texts[uri] != text:
        editor.replace(uri, text)
    path.write_text(text, encoding="utf-8")
    params = t.DidSaveTextDocumentParams(text_document=t.TextDocumentIdentifier(uri=uri))
    editor.client.text_document_did_save(params)


async def ended(editor: Editor, count: int) -> None:
    """That many validations have ended well."""

    async def done() -> bool:
        jobs = (await editor.command("stitchcuda.status"))["jobs"]
        ours = [j for j in jobs if j["title"].startswith("Validate on save")]
        assert all(j["state"] in ("running", "done") for j in ours), ours
        return len([j for j in ours if j["state"] == "done"]) == count

    for _ in range(int(SECONDS)):
        if await done():
            return
        await asyncio.sleep(1.0)
    raise AssertionError("the validation did not end")


def found(editor: Editor, uri: str) -> list[t.Diagnostic] | None:
    for params in reversed(editor.pushed):
        if params.uri == uri and params.version == editor.versions[uri]:
            return [d for d in params.diagnostics if d.code in ("latency-regression", "sanitizer")]
    return None


async def test_a_kernel_made_a_fifth_slower_is_reported_on_its_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "spin.cu"
    good = PROGRAM.read_text(encoding="utf-8")
    slow = good.replace("const int ROUNDS = 20000;", "const int ROUNDS = 24000;")
    path.write_text(good, encoding="utf-8")
    options = {"trusted": True, "validateOnSave": True}
    async with editor_session("visual_studio_code", REAL, options, tmp_path) as editor:
        uri = path.as_uri()
        editor.open(uri, good)
        save(editor, uri, path, good)
        await ended(editor, 1)  # the baseline is recorded
        save(editor, uri, path, slow)
        await ended(editor, 2)
        (shown,) = await until(lambda: found(editor, uri) or None)
        assert shown.code == "latency-regression" and "mix takes" in shown.message
        assert editor.at(uri, shown.range).strip() == "mix<<<N / 256, 256>>>(d_values, ROUNDS);"
        print(shown.message)
        save(editor, uri, path, good)
        await ended(editor, 3)
        await until(lambda: found(editor, uri) == [])
