"""Step-by-step rewrites and what the list of actions offers, with the real engine and command line."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

import pytest
from lsprotocol import types as t
from pygls.capabilities import get_capability
from stitchcuda.agent.transform_names import IDS, NAMED
from stitchcuda.server.cli.dispatch import main

from tests.server import small_program
from tests.server.client import REAL, Editor, editor_session, until
from tests.server.test_program_jobs import RANGE, job_ended

pytestmark = pytest.mark.asyncio

NOW = {"diagnosticsDelay": 0}
KIND = "refactor.rewrite.stitchcuda"
KEPT = """\
#include <cuda_runtime.h>
__global__ void fill(float *x) { x[threadIdx.x] = 1; }
int main() {
  float *host, *x;
  cudaMallocHost(&host, 1024);
  cudaMalloc(&x, 1024);
  fill<<<1, 256>>>(x);
  cudaMemcpyAsync(host, x, 1024, cudaMemcpyDeviceToHost);
  cudaDeviceSynchronize();
  return host[7] > 0;
}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return small_program.write(tmp_path)


def at(editor: Editor, uri: str, text: str) -> t.Range:
    place = editor.find(uri, text)
    return t.Range(start=place, end=place)


async def rewrites(editor: Editor, uri: str, where: t.Range, enough: int = 1) -> dict[str, t.CodeAction]:
    """By transform, once the outline of the file is known."""
    for _ in range(1000):
        found = await editor.actions(uri, where, [KIND])
        mine = {str(a.kind).removeprefix(f"{KIND}."): a for a in found if not str(a.kind).endswith(".stitch")}
        if len(mine) >= enough:
            return mine
        await asyncio.sleep(0.02)
    raise AssertionError("no rewrite is offered")


def shows_why(editor: Editor) -> bool:
    return bool(get_capability(editor.capabilities, "text_document.code_action.disabled_support"))


@pytest.mark.parametrize("client", ["visual_studio_code", "neovim"])
async def test_a8_a_rewrite_is_one_transform_in_the_function_under_the_cursor(
    client: str, program: Path, tmp_path: Path
) -> None:
    uri = (program / "smooth.cu").as_uri()
    async with editor_session(client, REAL, NOW, program) as editor:
        editor.open(uri, small_program.SMOOTH)
        offered = await rewrites(editor, uri, at(editor, uri, "average<<<"))
        lacking = {n.id for n in NAMED if n.id in ("hoist-allocation", "keep-resident")}
        assert set(offered) == set(IDS) if shows_why(editor) else lacking.isdisjoint(offered)
        for name, action in offered.items():
            assert action.edit is None and not action.is_preferred
            if name in lacking:
                assert action.disabled is not None and action.command is None
        if shows_why(editor):
            disabled = offered["keep-resident"].disabled
            assert disabled is not None and disabled.reason == "nothing is copied in it"
        everywhere = await editor.actions(uri, at(editor, uri, "average<<<"))
        assert sum(bool(a.is_preferred) for a in everywhere) <= 1
        # a kernel, and what stands outside of functions, have none
        assert await editor.actions(uri, at(editor, uri, "blockIdx.x"), [f"{KIND}.remove-wait"]) == []
        assert await editor.actions(uri, RANGE, [f"{KIND}.remove-wait"]) == []

        took = []
        for _ in range(20):
            began = time.monotonic()
            await editor.actions(uri, at(editor, uri, "average<<<"))
            took.append(time.monotonic() - began)
        assert statistics.median(took) < 0.05, took

        action = offered["remove-wait"]
        assert action.command is not None
        assert action.title == "Remove host waits that nothing relies on in smooth (preview, not run)"
        answer = await editor.command(action.command.command, *(action.command.arguments or ()))
        assert (await job_ended(editor, answer["job"]))["state"] == "done"
        (sent,) = editor.applied
        assert sent.label == "Remove host waits that nothing relies on in smooth: not validated"
        words = ["--only", "remove-wait", "--within", "smooth", "--out", str(tmp_path / "out")]
        assert main(["stitch", str(program), "--no-run", "--progress", "none", *words]) == 0
        written = {f.name: f.read_text(encoding="utf-8") for f in (tmp_path / "out").iterdir()}
        assert {Path(u).name: text for u, text in editor.texts.items()} == written
        assert list(written) == ["smooth.cu"]


async def test_a9_a_rewrite_that_finds_nothing_says_why_and_is_offered_again_after_an_edit(program: Path) -> None:
    (program / "main.cu").write_text(KEPT, encoding="utf-8")
    (program / "smooth.cu").unlink()
    uri = (program / "main.cu").as_uri()
    async with editor_session("visual_studio_code", REAL, NOW, program) as editor:
        editor.open(uri, KEPT)
        action = (await rewrites(editor, uri, at(editor, uri, "fill<<<")))["remove-wait"]
        assert action.command is not None and action.disabled is None
        answer = await editor.command(action.command.command, *(action.command.arguments or ()))
        await job_ended(editor, answer["job"])
        (message,) = await until(lambda: editor.messages or None)
        assert "no safe change" in message and "main.cu:10: remove-wait: the wait in line 9" in message
        assert editor.applied == []
        action = (await rewrites(editor, uri, at(editor, uri, "fill<<<")))["remove-wait"]
        assert action.disabled is not None and "the host reads pinned `host`" in action.disabled.reason

        editor.edit(uri, RANGE, "// typed\n")
        action = (await rewrites(editor, uri, at(editor, uri, "fill<<<")))["remove-wait"]
        assert action.disabled is None and action.command is not None
        with pytest.raises(Exception, match=r"save .*main\.cu first"):
            await editor.command("stitchcuda.rewrite", uri, "remove-wait", "main")
        with pytest.raises(Exception, match=f"there is no rewrite 'nope'; the rewrites are {', '.join(IDS)}"):
            await editor.command("stitchcuda.rewrite", uri, "nope")
        for wrong in ((uri, 7), (uri, "remove-wait", 7), (uri, "remove-wait", "-x"), ("file:///none.cu", IDS[0])):
            with pytest.raises(Exception, match=r"stitchcuda\.rewrite takes"):
                await editor.command("stitchcuda.rewrite", *wrong)
