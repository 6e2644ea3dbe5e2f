"""Settings by folder, and what is wrong with them; files outside of all folders; a folder's own build description."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as t
from pygls.capabilities import get_capability

from tests.server.client import FAKE, REAL, Editor, editor_session, until

pytestmark = pytest.mark.asyncio

NOW = {"diagnosticsDelay": 0}
TEXT = "void f() { hazard(x); }\n"


def configure(editor: Editor, scope: str, values: dict[str, Any] | None) -> None:
    editor.client._configuration[scope] = {"stitchcuda": values}


def changed(editor: Editor) -> None:
    editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings=None))


async def codes(editor: Editor, uri: str, wanted: list[str]) -> None:
    """Waits for exactly these codes, by the channel that the client has."""
    pulls = get_capability(editor.capabilities, "workspace.diagnostics.refresh_support")
    for _ in range(400):
        if pulls:
            found = [d.code for d in await editor.pull(uri)]
        else:
            found = next(([d.code for d in p.diagnostics] for p in reversed(editor.pushed) if p.uri == uri), [])
        if found == wanted:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{found} and not {wanted}")


async def with_folder(editor: Editor, folder: Path) -> None:
    """Adds a folder to the workspace."""
    added = [t.WorkspaceFolder(uri=folder.as_uri(), name=folder.name)]
    event = t.WorkspaceFoldersChangeEvent(added=added, removed=[])
    editor.client.workspace_did_change_workspace_folders(t.DidChangeWorkspaceFoldersParams(event=event))
    await editor.command("stitchcuda.status")


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
async def test_a20_each_folder_has_its_settings_and_a_mistake_is_named_once(client: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    async with editor_session(client, FAKE, NOW, one, configuration={"colour": 1}) as editor:
        configure(editor, one.as_uri(), {"colour": 1, "ignore": ["stream-race-raw"]})
        configure(editor, two.as_uri(), {"colour": 1, "severity": {"stream-race-raw": "hint"}, "hover": "yes"})
        await with_folder(editor, two)
        first, second, outside = ((f / "a.cu").as_uri() for f in (one, two, tmp_path))
        for uri in (first, second, outside):
            editor.open(uri, TEXT)
        for uri, wanted in ((first, []), (second, ["stream-race-raw"]), (outside, ["stream-race-raw"])):
            await codes(editor, uri, wanted)
        told = [m for m in editor.messages if "settings" in m]
        assert sum(m.count("unknown setting 'colour'") for m in told) == 1
        assert sum(m.count("'hover' must be true or false, not 'yes'") for m in told) == 1
        configure(editor, one.as_uri(), None)  # null: the defaults
        changed(editor)
        await codes(editor, first, ["stream-race-raw"])
        configure(editor, two.as_uri(), {"ignore": ["all"], "colour": 1})
        changed(editor)
        await codes(editor, second, [])
        assert [m for m in editor.messages if "settings" in m] == told


async def test_a20_a_client_that_never_answers_keeps_the_initial_settings() -> None:
    async with editor_session("visual_studio_code", FAKE, {**NOW, "ignore": ["all"]}) as editor:
        asked, over = asyncio.Event(), asyncio.Event()

        async def silent(params: t.ConfigurationParams) -> list[Any]:
            asked.set()
            await over.wait()
            return []

        editor.client.protocol.fm.features[t.WORKSPACE_CONFIGURATION] = silent
        changed(editor)
        await asyncio.wait_for(asked.wait(), 10)
        editor.open("file:///project/a.cu", TEXT)
        await codes(editor, "file:///project/a.cu", [])
        params = t.HoverParams(
            text_document=t.TextDocumentIdentifier(uri="file:///project/a.cu"), position=t.Position(line=0, character=0)
        )
        assert await asyncio.wait_for(editor.client.text_document_hover_async(params), 10) is None
        over.set()


MAIN = """\
#include "kernels.cuh"
int main() {
  float *x, *y;
  cudaMalloc(&x, 1024); cudaMalloc(&y, 1024);
  cudaStream_t a, b;
  cudaStreamCreate(&a); cudaStreamCreate(&b);
  produce<<<1, 256, 0, a>>>(x);
  consume<<<1, 256, 0, b>>>(x, y);
  cudaDeviceSynchronize();
}
"""
KERNELS = """\
#pragma once
#include <cuda_runtime.h>
__global__ void produce(float* out) { out[threadIdx.x] = 1; }
__global__ void consume(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
"""
ALONE = KERNELS.replace("= in[threadIdx.x]", "= 2")  # does not read: no race


@pytest.mark.parametrize("client", ["neovim", "vscode"])
async def test_a21_each_folder_has_its_build_description_and_files_outside_have_findings(
    client: str, tmp_path: Path
) -> None:
    for name, kernels in (("one", KERNELS), ("two", ALONE)):
        for folder in ("src", "deep/headers"):
            (tmp_path / name / folder).mkdir(parents=True)
        (tmp_path / name / "deep/headers/kernels.cuh").write_text(kernels, encoding="utf-8")
        source = tmp_path / name / "src/main.cu"
        source.write_text(MAIN, encoding="utf-8")
        entry = {
            "directory": str(tmp_path / name),
            "file": "src/main.cu",
            "command": "nvcc -Ideep/headers -c src/main.cu",
        }
        (tmp_path / name / "compile_commands.json").write_text(json.dumps([entry]), encoding="utf-8")
    outside = tmp_path / "elsewhere.cu"
    async with editor_session(client, REAL, NOW, tmp_path / "one") as editor:
        await with_folder(editor, tmp_path / "two")
        one, two = ((tmp_path / name / "src/main.cu").as_uri() for name in ("one", "two"))
        editor.open(one, MAIN)
        editor.open(two, MAIN)
        editor.open(outside.as_uri(), KERNELS + MAIN.partition("\n")[2])
        await codes(editor, one, ["stream-race-raw"])
        await codes(editor, outside.as_uri(), ["stream-race-raw"])
        await codes(editor, two, [])

        # A header that changes on the disk: told by the client that watches, noticed at the next save by one that does not.
        header = tmp_path / "two/deep/headers/kernels.cuh"
        header.write_text(KERNELS + "// longer\n", encoding="utf-8")
        if get_capability(editor.capabilities, "workspace.did_change_watched_files.dynamic_registration"):
            event = t.FileEvent(uri=header.as_uri(), type=t.FileChangeType.Changed)
            editor.client.workspace_did_change_watched_files(t.DidChangeWatchedFilesParams(changes=[event]))
        else:
            saved = t.DidSaveTextDocumentParams(text_document=t.TextDocumentIdentifier(uri=two))
            editor.client.text_document_did_save(saved)
        await codes(editor, two, ["stream-race-raw"])


async def test_a21_files_are_watched_where_the_client_can() -> None:
    async with editor_session("visual_studio_code", FAKE, NOW) as editor:
        seen: list[t.Registration] = []

        def register(params: t.RegistrationParams) -> None:
            seen.extend(params.registrations)

        editor.client.protocol.fm.features[t.CLIENT_REGISTER_CAPABILITY] = register
        editor.client.initialized(t.InitializedParams())
        watched = await until(lambda: next((r for r in seen if r.method == t.WORKSPACE_DID_CHANGE_WATCHED_FILES), None))
        assert "compile_commands.json" in str(watched.register_options) and "stitchcuda.toml" in str(watched)
