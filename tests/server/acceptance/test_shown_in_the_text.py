"""What the server shows in and over the text: hover, inlay hints, lenses, symbols; with the real engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types as t

from tests.server.client import REAL, Editor, capabilities_of, editor_session, until
from tests.server.test_program_jobs import Desk, at, desk, job_ended, jobs, save

__all__ = ["desk"]  # the fixture
pytestmark = pytest.mark.asyncio

NOW = {"diagnosticsDelay": 0}
TEXT = """\
// 😀 two streams and an event
#include <cuda_runtime.h>
__global__ void produce(float *x, int n) { int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < n) x[i] = i; }
__global__ void consume(const float *x, float *y, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) y[i] = x[i];
}
void one(float *x, int n) {
  produce<<<4, 256>>>(x, n);
  cudaStreamSynchronize(0);
}
int main() {
  float *x, *y, *host;
  int n = 1024;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  cudaMallocHost(&host, n * sizeof(float));
  cudaStream_t a, b;
  cudaEvent_t ready;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
  produce<<<4, 256, 0, a>>>(x, n);
  cudaEventRecord(ready, a);
  cudaStreamWaitEvent(b, ready, 0);
  /* 😀 */ consume<<<4, 256, 0, b>>>(x, y, n);
  cudaMemcpyAsync(host, y, n * sizeof(float), cudaMemcpyDeviceToHost, b);
  cudaStreamSynchronize(b);
  one(y, n);
  consume<<<4, 256>>>(y, x, n);
  cudaDeviceSynchronize();
  cudaFree(x);
  return host[0] > 0;
}
"""


async def hover(editor: Editor, uri: str, text: str, inside: int = 0) -> str:
    place = editor.find(uri, text)
    position = t.Position(line=place.line, character=place.character + inside)
    params = t.HoverParams(text_document=t.TextDocumentIdentifier(uri=uri), position=position)
    found = await editor.client.text_document_hover_async(params)
    if found is None:
        return ""
    assert isinstance(found.contents, t.MarkupContent) and found.contents.kind == t.MarkupKind.Markdown
    assert found.contents.value.startswith("**stitchcuda**")
    return found.contents.value


async def hints(editor: Editor, uri: str) -> list[str]:
    """Each with the text in front of it on its line."""
    whole = t.Range(start=t.Position(line=0, character=0), end=t.Position(line=99, character=0))
    params = t.InlayHintParams(text_document=t.TextDocumentIdentifier(uri=uri), range=whole)
    found = await editor.client.text_document_inlay_hint_async(params)
    told = []
    for hint in found or []:
        start = t.Position(line=hint.position.line, character=0)
        told.append(f"{editor.at(uri, t.Range(start=start, end=hint.position)).strip()} | {hint.label}")
    return told


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
async def test_what_is_under_the_cursor_and_beside_the_code(client: str, tmp_path: Path) -> None:
    uri = (tmp_path / "a.cu").as_uri()
    async with editor_session(client, REAL, {**NOW, "trusted": True}, tmp_path) as editor:
        editor.open(uri, TEXT)
        launch = await hover(editor, uri, "consume<<<4, 256, 0, b")
        for part in ("launch of `consume`", "grid `4`, block `256`", "stream: `b`", "reads: `x`", "writes: `y`"):
            assert part in launch
        assert "launch of `produce`, line 23 (data)" in launch
        copy = await hover(editor, uri, "cudaMemcpyAsync")
        for part in (
            "copy device to host, 4096 bytes",
            "stream: `b`",
            "reads: `y`",
            "writes: `host`",
            "ordered after: ",
        ):
            assert part in copy
        wait = await hover(editor, uri, "cudaStreamSynchronize(b)")
        assert "the host waits for the work on `b` up to copy `cudaMemcpyAsync`, line 27" in wait
        device_wait = await hover(editor, uri, "cudaStreamWaitEvent")
        assert "later work on `b` waits for event `ready`, recorded on `a` (line 24)" in device_wait
        assert "launch of `produce`, line 23" in device_wait

        buffer = await hover(editor, uri, "x, y, n);\n  cudaMemcpyAsync")
        for part in (
            "buffer `x`: device memory, 4096 bytes",
            "allocated: line 15",
            "written by: launch of `produce`, line 23",
            "read by: launch of `consume`, line 26",
            "freed: `cudaFree`, line 32",
        ):
            assert part in buffer
        stream = await hover(editor, uri, "b>>>")
        for part in (
            "stream `b`; not ordered with the default stream",
            "created: line 21",
            "waits for: event `ready`, line 25",
        ):
            assert part in stream
        event = await hover(editor, uri, "ready, 0")
        for part in (
            "event `ready`; without times",
            "recorded: line 24, on `a` after launch of `produce`",
            "line 25, by `b`",
        ):
            assert part in event
        for nothing in ("int n = 1024", "x[i] = i", "😀 two"):
            assert await hover(editor, uri, nothing) == ""

        brief = [
            "cudaStreamSynchronize(0) | waits for produce (line 9)",
            "cudaStreamWaitEvent(b, ready, 0) | after produce (line 23)",
            "cudaStreamSynchronize(b) | waits for cudaMemcpyAsync (line 27)",
            "consume<<<4, 256 | stream: default",
        ]
        told = await hints(editor, uri)
        assert [h for h in told if not h.startswith("cudaDeviceSynchronize()")] == brief
        assert "cudaDeviceSynchronize() | waits for consume (line 30)" in told
        for setting, more in (("all", ["produce<<<4, 256 | stream: default"]), ("off", [])):
            editor.client._configuration[""] = {"stitchcuda": {"inlayHints": setting}}
            editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings=None))
            for _ in range(200):
                now = await hints(editor, uri)
                if (setting == "off") == (now == []) and len(now) != len(told):
                    break
                await asyncio.sleep(0.02)
            assert sorted(now) == (sorted([*told, *more]) if setting == "all" else [])

        identifier = t.TextDocumentIdentifier(uri=uri)
        lenses = await editor.client.text_document_code_lens_async(t.CodeLensParams(text_document=identifier))
        commands = [lens.command for lens in lenses or [] if lens.command]
        of_main = [c for c in commands if "2 kernels, 3 streams, 1 copy" in c.title or c.command]
        assert [c.title for c in commands][:3] == ["1 kernel, 1 stream, 0 copies", "Stitch", "Show graph"]
        assert {c.command for c in of_main if c.command} <= {
            "stitchcuda.stitch",
            "stitchcuda.showGraph",
            "stitchcuda.graphText",
            "stitchcuda.validate",
        }
        symbols = await editor.client.text_document_document_symbol_async(
            t.DocumentSymbolParams(text_document=identifier)
        )
        tree = {s.name: [c.name for c in s.children or []] for s in symbols or [] if isinstance(s, t.DocumentSymbol)}
        assert tree["produce"] == [] and tree["one"] == ["produce", "cudaStreamSynchronize"]
        assert tree["main"][:3] == ["produce", "cudaEventRecord", "cudaStreamWaitEvent"]


async def test_what_was_measured_on_save_is_told_and_goes_with_its_line(desk: Desk) -> None:
    text = "__global__ void step() {}\nint main() {\n    step<<<1, 2>>>();\n    return 0;\n}\n"
    (desk.program / "main.cu").write_text(text, encoding="utf-8")
    site = {"path": "main.cu", "function": "main", "operation": "step", "line": 3, "count": 48, "nanoseconds": [7250]}
    kernels = [
        {"name": "step()", "registers": 18, "shared": 4096, "stack": 0, "spilled": 8},
        {"name": "step2()", "registers": 255, "shared": 0, "stack": 0, "spilled": None},
    ]
    answer = {"schema": 1, "state": "ok", "findings": [], "sites": [site], "device": "NVIDIA H200"}
    desk.answer({**answer, "kernels": kernels})
    async with at(desk, validateOnSave=True) as editor:
        editor.replace(desk.uri, text)
        save(editor, desk.uri)
        for job in jobs(await editor.command("stitchcuda.status")):
            await job_ended(editor, job["id"])
        told = await hover(editor, desk.uri, "<<<1")
        assert "measured: 7.2 us on NVIDIA H200, 48 a run" in told
        assert "built: 18 registers a thread, 4096 bytes of static shared memory a block, 8 bytes spilled" in told
        place = editor.find(desk.uri, "1, 2")
        editor.edit(desk.uri, t.Range(start=place, end=place), "4")
        for _ in range(200):
            told = await hover(editor, desk.uri, "<<<41")
            if told:  # the launch as it is now is known
                break
            await asyncio.sleep(0.02)
        assert "launch of `step`" in told and "measured" not in told and "registers" not in told


async def test_a_client_without_refresh_is_not_asked_to_refresh() -> None:
    assert capabilities_of("bare").workspace is None
    async with editor_session("bare", REAL, NOW) as editor:
        editor.client.workspace_did_change_configuration(
            t.DidChangeConfigurationParams(settings={"inlayHints": "off", "codeLens": False})
        )
        assert (await editor.command("stitchcuda.status"))["documents"] == 0
        assert not editor.client.messages


@pytest.mark.parametrize(("client", "opened"), [("neovim", True), ("neovim", False), ("bare", False)])
async def test_the_graph_opens_as_a_page_or_its_place_is_told(client: str, opened: bool, tmp_path: Path) -> None:
    uri = (tmp_path / "a.cu").as_uri()
    async with editor_session(client, REAL, NOW, tmp_path) as editor:
        asked: list[t.ShowDocumentParams] = []

        def show(params: t.ShowDocumentParams) -> t.ShowDocumentResult:
            asked.append(params)
            return t.ShowDocumentResult(success=opened)

        editor.client.protocol.fm.features[t.WINDOW_SHOW_DOCUMENT] = show
        editor.open(uri, TEXT)
        params = t.CodeLensParams(text_document=t.TextDocumentIdentifier(uri=uri))
        lenses = await editor.client.text_document_code_lens_async(params)
        command = next(lens.command for lens in lenses or [] if lens.command and lens.command.title == "Show graph")
        form = "text" if client == "bare" else "html"
        assert list(command.arguments or ()) == [uri, "one", form, True]
        text = await editor.command(command.command, *(command.arguments or ()))
        assert ("<html" in text) == (form == "html") and "produce" in text
        if client == "bare":
            assert asked == []
        else:
            (shown,) = asked
            assert shown.external and shown.uri.endswith("one-execution-graph.html")
        if opened:
            assert not editor.messages
        else:
            (message,) = await until(lambda: editor.messages or None)
            file = Path(message.removeprefix("The execution graph is in "))
            assert file.read_text(encoding="utf-8") == text


async def test_lenses_and_hints_follow_an_edit_of_another_file(tmp_path: Path) -> None:
    main, other = tmp_path / "main.cu", tmp_path / "other.cu"
    head = "#include <cuda_runtime.h>\nvoid more(float *x);\n__global__ void k(float *x) { x[0] = 1; }\n"
    main.write_text(f"{head}int main() {{\n  float *x;\n  cudaMalloc(&x, 4);\n  more(x);\n  k<<<1, 1>>>(x);\n}}\n")
    other.write_text("#include <cuda_runtime.h>\nvoid more(float *x) { cudaMemset(x, 0, 4); }\n")
    async with editor_session("visual_studio_code", REAL, NOW, tmp_path) as editor:
        refreshed: list[str] = []
        for method in (t.WORKSPACE_CODE_LENS_REFRESH, t.WORKSPACE_INLAY_HINT_REFRESH):
            editor.client.feature(method)(lambda *_, method=method: refreshed.append(method))
        for file in (main, other):
            editor.open(file.as_uri(), file.read_text())
        params = t.CodeLensParams(text_document=t.TextDocumentIdentifier(uri=main.as_uri()))

        async def counts() -> str:
            lenses = await editor.client.text_document_code_lens_async(params)
            return next((lens.command.title for lens in lenses or [] if lens.command), "")

        while await counts() != "1 kernel, 1 stream, 0 copies":
            await asyncio.sleep(0.02)
        refreshed.clear()
        copies = "cudaMemcpy(x, x + 1, 4, cudaMemcpyDeviceToDevice);"
        editor.replace(other.as_uri(), other.read_text().replace("cudaMemset(x, 0, 4);", copies))
        await until(lambda: t.WORKSPACE_CODE_LENS_REFRESH in refreshed)
        assert await counts() == "1 kernel, 1 stream, 1 copy"


ROUNDS = """\
__global__ void k(float *x) { x[threadIdx.x] += 1; }
void step(float *x, cudaStream_t s) {
  k<<<1, 32, 0, s>>>(x);
}
int main() {
  float *x;
  cudaStream_t s;
  cudaEvent_t done;
  cudaMalloc(&x, 4096);
  cudaStreamCreate(&s);
  cudaEventCreate(&done);
  for (int i = 0; i < 9; ++i) {
    cudaMemsetAsync(x, 0, 4096, s);
    cudaEventRecord(done, s);
  }
  step(x, s);
  step(x, s);
  cudaDeviceSynchronize();
}
"""


async def test_what_a_round_of_a_loop_comes_after_is_told_with_the_round(tmp_path: Path) -> None:
    uri = (tmp_path / "a.cu").as_uri()
    async with editor_session("neovim", REAL, NOW, tmp_path) as editor:
        editor.open(uri, ROUNDS)
        memset = await hover(editor, uri, "cudaMemsetAsync")
        assert "record event `cudaEventRecord`, line 14 in an earlier round" in memset
        assert "round" not in await hover(editor, uri, "cudaEventRecord")
        assert "launch of `k`, line 3" in (twice := await hover(editor, uri, "k<<<")) and "round" not in twice
