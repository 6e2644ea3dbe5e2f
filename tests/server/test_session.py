"""The server with the real engine: findings, fixes, hover, lenses, symbols and the graph of small programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from lsprotocol import types as t

from tests.server.client import REAL, Editor, editor_session, until

pytestmark = pytest.mark.asyncio

NOW = {"diagnosticsDelay": 0}
RACE = """\
// 😀 a race between two streams
#include <cuda_runtime.h>
__global__ void produce(float *x, int n) { int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < n) x[i] = i; }
__global__ void consume(const float *x, float *y, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) y[i] = x[i];
}
int main() {
  float *x, *y;
  int n = 1024;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  produce<<<4, 256, 0, a>>>(x, n);
  /* 😀 */ consume<<<4, 256, 0, b>>>(x, y, n);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
}
"""


async def diagnostics(editor: Editor, uri: str, codes: Sequence[str]) -> list[t.Diagnostic]:
    """Waits for exactly these codes, through the channel that the client has."""
    if editor.pulls:
        for _ in range(200):
            found = await editor.pull(uri)
            if [d.code for d in found] == list(codes):
                break
            await asyncio.sleep(0.02)
        assert [d.code for d in found] == list(codes)
        assert not [p for p in editor.pushed if p.diagnostics], "a finding came through both channels"
        return found
    return await editor.pushed_for(uri, lambda items: [d.code for d in items] == list(codes))


@pytest.mark.parametrize("name", ["neovim", "visual_studio_code", "vscode"])
async def test_open_fix_undo_close(name: str, tmp_path: Path) -> None:
    path = tmp_path / "race.cu"
    path.write_text(RACE, encoding="utf-8")
    uri = path.as_uri()
    async with editor_session(name, REAL, options=NOW, root=tmp_path) as editor:
        editor.open(uri, RACE)
        (race,) = await diagnostics(editor, uri, ["stream-race-raw"])
        assert editor.at(uri, race.range) == "consume<<<4, 256, 0, b>>>(x, y, n)"
        assert "`consume` on stream `b` reads `x`" in race.message
        related = race.related_information
        assert related and editor.at(uri, related[0].location.range) == "produce<<<4, 256, 0, a>>>(x, n)"

        action = next(a for a in await editor.actions(uri, race.range, ["quickfix"]) if a.is_preferred)
        assert action.edit is None
        action = await editor.client.code_action_resolve_async(action)
        assert action.edit is not None
        editor.apply(action.edit)
        assert "cudaStreamWaitEvent(b, " in editor.texts[uri]
        await diagnostics(editor, uri, [])

        editor.replace(uri, RACE)
        await diagnostics(editor, uri, ["stream-race-raw"])
        editor.close(uri)
        if not editor.pulls:
            await until(lambda: not editor.pushed[-1].diagnostics)


async def test_suppress_silences_the_line(tmp_path: Path) -> None:
    uri = (tmp_path / "race.cu").as_uri()
    async with editor_session("neovim", REAL, options=NOW) as editor:
        editor.open(uri, RACE)
        (race,) = await diagnostics(editor, uri, ["stream-race-raw"])
        action = next(a for a in await editor.actions(uri, race.range) if a.title.startswith("Suppress"))
        action = await editor.client.code_action_resolve_async(action)
        assert action.edit is not None
        editor.apply(action.edit)
        await diagnostics(editor, uri, [])


async def test_hover_lens_symbols_and_graph(tmp_path: Path) -> None:
    uri = (tmp_path / "race.cu").as_uri()
    async with editor_session("visual_studio_code", REAL, options=NOW) as editor:
        editor.open(uri, RACE)
        await diagnostics(editor, uri, ["stream-race-raw"])
        identifier = t.TextDocumentIdentifier(uri=uri)
        params = t.HoverParams(text_document=identifier, position=editor.find(uri, "<<<4, 256, 0, b"))
        shown = await editor.client.text_document_hover_async(params)
        assert shown is not None and isinstance(shown.contents, t.MarkupContent)
        for part in ("`consume`", "grid `4`, block `256`", "stream: `b`", "reads: `x`", "writes: `y`", "ordered after"):
            assert part in shown.contents.value

        lenses = await editor.client.text_document_code_lens_async(t.CodeLensParams(text_document=identifier))
        titles = [lens.command.title for lens in lenses or [] if lens.command]
        assert titles == ["2 kernels, 2 streams, 0 copies", "Stitch", "Show graph"]

        symbols = await editor.client.text_document_document_symbol_async(
            t.DocumentSymbolParams(text_document=identifier)
        )
        tree = {s.name: [c.name for c in s.children or []] for s in symbols or [] if isinstance(s, t.DocumentSymbol)}
        assert tree == {"produce": [], "consume": [], "main": ["produce", "consume", "cudaDeviceSynchronize"]}

        text = await editor.command("stitchcuda.graphText", uri, "main")
        assert "`consume` runs on stream `b`" in text
        assert "flowchart" in await editor.command("stitchcuda.graphText", uri, "main", "mermaid")
        graph = json.loads(await editor.command("stitchcuda.graphText", uri, "", "json"))
        assert [n["kernel"] for n in graph["nodes"] if n["kind"] == "launch"] == ["produce", "consume"]


async def test_a_python_file() -> None:
    text = (
        "import cupy as cp\n\n\ndef main():\n    a = cp.cuda.Stream(non_blocking=True)\n    b = cp.cuda.Stream(non_blocking=True)\n"
        "    with a:\n        x = cp.arange(1000)\n    with b:\n        y = x * 2\n    a.synchronize()\n    b.synchronize()\n\n\nmain()\n"
    )
    async with editor_session("neovim", REAL, options=NOW) as editor:
        editor.open("file:///project/a.py", text, "python")
        (race,) = await diagnostics(editor, "file:///project/a.py", ["stream-race-raw"])
        assert race.range.start.line == 9
        offered = await editor.actions("file:///project/a.py", race.range)
        suppress = next(a for a in offered if a.title.startswith("Suppress"))
        resolved = await editor.client.code_action_resolve_async(suppress)
        assert resolved.edit is not None
        editor.apply(resolved.edit)
        assert "y = x * 2  # stitchcuda: ignore[stream-race-raw]" in editor.texts["file:///project/a.py"]
        await diagnostics(editor, "file:///project/a.py", [])


HEADER = """\
#pragma once
#include <cuda_runtime.h>
void upload(float *to, const float *from, int n, cudaStream_t stream);
"""
MAIN = """\
#include "upload.h"
__global__ void scale(float *x, int n) { int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < n) x[i] *= 2; }
int main() {
  float *x, *host;
  int n = 1 << 20;
  cudaMalloc(&x, n * sizeof(float));
  cudaMallocHost(&host, n * sizeof(float));
  cudaStream_t copy, work;
  cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking);
  upload(x, host, n, copy);
  scale<<<n / 256, 256, 0, work>>>(x, n);
  cudaDeviceSynchronize();
}
"""
UPLOAD = """\
#include "upload.h"
void upload(float *to, const float *from, int n, cudaStream_t stream) {
  cudaMemcpyAsync(to, from, n * sizeof(float), cudaMemcpyHostToDevice, stream);
}
"""


@pytest.mark.parametrize("name", ["neovim", "visual_studio_code", "vscode"])
async def test_a_program_of_several_files(name: str, tmp_path: Path) -> None:
    """The race needs the definition in the other source; it goes when that is edited, open or on the disk."""
    for file, text in (("upload.h", HEADER), ("main.cu", MAIN), ("upload.cu", UPLOAD)):
        (tmp_path / file).write_text(text, encoding="utf-8")
    main, upload = (tmp_path / "main.cu").as_uri(), (tmp_path / "upload.cu").as_uri()
    waiting = UPLOAD.replace(";\n}", ";\n  cudaStreamSynchronize(stream);\n}")
    async with editor_session(name, REAL, options=NOW, root=tmp_path) as editor:
        editor.open(main, MAIN)
        (race,) = await diagnostics(editor, main, ["stream-race-raw"])
        assert editor.at(main, race.range).startswith("scale<<<")
        assert race.related_information
        assert race.related_information[0].location.uri == upload

        identifier = t.TextDocumentIdentifier(uri=main)
        lenses = await editor.client.text_document_code_lens_async(t.CodeLensParams(text_document=identifier))
        titles = [lens.command.title for lens in lenses or [] if lens.command]
        assert titles == ["1 kernel, 2 streams, 1 copy", "Stitch", "Show graph"]  # with what `upload` does

        editor.open(upload, UPLOAD)
        editor.replace(upload, waiting)
        await diagnostics(editor, main, [])
        editor.close(upload)
        (tmp_path / "upload.cu").write_text(UPLOAD + "\n", encoding="utf-8")
        changed = t.FileEvent(uri=upload, type=t.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(t.DidChangeWatchedFilesParams(changes=[changed]))
        await diagnostics(editor, main, ["stream-race-raw"])


async def test_an_include_is_read_from_the_editor_when_it_is_open_there(tmp_path: Path) -> None:
    header = tmp_path / "work.h"
    header.write_text("#pragma once\n", encoding="utf-8")
    main = tmp_path / "a.cu"
    text = '#include "work.h"\n' + RACE.replace("cudaDeviceSynchronize();", "finish(x, y);")
    good = "#pragma once\n#include <cuda_runtime.h>\ninline void finish(float *x, float *y) { cudaDeviceSynchronize(); cudaFree(x); }\n"
    async with editor_session("vscode", REAL, options=NOW, root=tmp_path) as editor:
        editor.open(main.as_uri(), text)
        await diagnostics(editor, main.as_uri(), ["stream-race-raw"])
        editor.open(header.as_uri(), good)
        params = t.DocumentSymbolParams(text_document=t.TextDocumentIdentifier(uri=header.as_uri()))
        for _ in range(200):
            symbols = await editor.client.text_document_document_symbol_async(params)
            if symbols:
                break
            await asyncio.sleep(0.02)
        assert [s.name for s in symbols or []] == ["finish"]


async def test_untitled_and_broken_code() -> None:
    async with editor_session("neovim", REAL, options=NOW) as editor:
        editor.open("untitled:Untitled-1", RACE, "cuda-cpp")
        await diagnostics(editor, "untitled:Untitled-1", ["stream-race-raw"])
        for cut in (10, 400, 700, len(RACE) - 120):
            editor.replace("untitled:Untitled-1", RACE[:cut])
            await editor.command("stitchcuda.status")
        editor.replace("untitled:Untitled-1", RACE)
        await diagnostics(editor, "untitled:Untitled-1", ["stream-race-raw"])
        assert not editor.client.messages


async def test_links_point_to_pages_that_exist() -> None:
    async with editor_session("neovim", REAL, options=NOW) as editor:
        editor.open("file:///project/race.cu", RACE)
        (race,) = await diagnostics(editor, "file:///project/race.cu", ["stream-race-raw"])
        if race.code_description is not None:
            assert Path(race.code_description.href.removeprefix("file://")).is_file()
