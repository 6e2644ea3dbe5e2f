"""Jobs in a real Neovim: stitching, its rewrites, cancelling, and what was typed meanwhile. In folders that are not trusted, so that a
machine with a GPU does the same."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from stitchcuda.agent import journal
from stitchcuda.agent.transform_names import IDS
from stitchcuda.server.cli.dispatch import main

from tests.editor.neovim import ROOT, Neovim, neovim
from tests.editor.vscode.serving import Serving
from tests.llm.endpoint import ScriptedEndpoint
from tests.llm.scenario import nothing_left
from tests.server import small_program

pytestmark = pytest.mark.editor
STITCHED = "stitchcuda: program: not validated: "
ALLOCATING = """\
#include <cuda_runtime.h>

__global__ void square(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * in[i];
}

int main() {
    const int n = 1 << 20;
    float *host, *values;
    cudaMallocHost(&host, n * sizeof(float));
    cudaMalloc(&values, n * sizeof(float));
    for (int i = 0; i < n; ++i) host[i] = i;
    cudaMemcpy(values, host, n * sizeof(float), cudaMemcpyHostToDevice);
    for (int step = 0; step < 100; ++step) {
        float* squares;
        cudaMalloc(&squares, n * sizeof(float));
        square<<<(n + 255) / 256, 256>>>(values, squares, n);
        square<<<(n + 255) / 256, 256>>>(squares, values, n);
        cudaFree(squares);
    }
    cudaMemcpy(host, values, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(values);
    return host[7] > 0 ? 0 : 1;
}
"""
VIT = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "examples" / "vit").iterdir() if path.is_file()}
# One program for each transform, with the file that is open, and what is in its text no more when it was rewritten.
REWRITTEN = {
    "hoist-allocation": ({"main.cu": ALLOCATING}, "main.cu", "        cudaMalloc(&squares"),
    "remove-wait": (small_program.FILES, "smooth.cu", "cudaDeviceSynchronize();"),
    "keep-resident": (VIT, "blocks.cu", "std::vector<float> attention_block"),
}


def program_of(folder: Path, files: dict[str, str]) -> Path:
    program = folder / "program"
    program.mkdir()
    for name, text in {"stitchcuda.toml": "", **files}.items():
        (program / name).write_text(text, encoding="utf-8")
    return program


def mode(editor: Neovim) -> str:
    """Answered in prompts, too."""
    return str(editor.nvim.request("nvim_get_mode")["mode"])


def waits(editor: Neovim, *paths: Path) -> list[int]:
    return [editor.text(path).count("cudaDeviceSynchronize();") for path in paths]


def test_a12_a16_stitching_shows_progress_and_is_one_edit_with_one_undo_a_file(tmp_path: Path) -> None:
    program = small_program.write(tmp_path)
    sources = [program / "main.cu", program / "smooth.cu"]
    with neovim(tmp_path) as editor:
        editor.lua(
            """
            _G.kinds, _G.percentages = {}, {}
            vim.api.nvim_create_autocmd("LspProgress", { callback = function(event)
              local value = event.data.params.value
              if value.title:find("Stitch") then
                table.insert(_G.kinds, value.kind)
                table.insert(_G.percentages, value.percentage)
              end
            end })
            """
        )
        editor.open(sources[0])
        assert editor.actions("refactor.rewrite.stitchcuda.stitch") == ["Stitch end-to-end (preview, not run)"]
        editor.do("StitchCuda latency below 8 ms")
        shown = editor.wait_for(
            "(function() local t = require('stitchcuda').statusline() return t:find('Stitch') and t end)()"
        )
        assert shown.startswith("Stitch end-to-end: program")
        editor.wait_said(STITCHED)
        assert editor.lua("return _G.labels") == ["Stitch end-to-end: not validated"]
        assert waits(editor, *sources) == [0, 0]
        assert all(path.read_text(encoding="utf-8") == small_program.FILES[path.name] for path in sources)
        kinds, percentages = editor.lua("return { _G.kinds, _G.percentages }")
        assert kinds[0] == "begin" and kinds[-1] == "end" and set(kinds[1:-1]) == {"report"}
        assert percentages == sorted(percentages)
        assert editor.lua("return require('stitchcuda').statusline()") == ""
        # It was asked once whether the folder is to be trusted, and an answer that was not given is no answer.
        assert len(editor.lua("return _G.asked")) == 1
        for path in sources:
            editor.do(f"buffer {path}")
            editor.undo()
            assert editor.text() == small_program.FILES[path.name]
    record = journal.find(None, tmp_path / "xdg" / "cache" / "stitchcuda" / "runs")
    assert record.contract is not None and record.contract["bounds"][0]["value"] == 0.008


def test_a15_what_is_typed_during_a_run_is_all_there_and_the_result_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = small_program.write(tmp_path)
    typed = "".join(f"n{i} " for i in range(400))
    with neovim(tmp_path) as editor:
        editor.nvim.ui_attach(80, 24, rgb=True)  # with a screen, since a message may ask for a key there
        editor.open(program / "main.cu")
        editor.do("StitchCuda")
        editor.wait_for("require('stitchcuda').statusline():find('Stitch') ~= nil")
        editor.lua("vim.ui.select = _G.neovims_select")  # Neovim's own, which takes keys
        editor.cursor(1)
        editor.type("O// ")
        given = 0
        while given < len(typed) and not any("not applied" in told for told in editor.said()):
            editor.type(typed[given : given + 3])
            given += 3
            time.sleep(0.01)
        told = editor.wait_said("not applied: main.cu ")
        for at in range(given, len(typed), 3):  # and after it
            editor.type(typed[at : at + 3])
        editor.type("<Esc>")
        editor.wait_until(lambda: mode(editor) == "n" or None, "the end of insert mode")
        assert editor.text() == f"// {typed}\n{small_program.MAIN}"
        editor.do(f"edit {program / 'smooth.cu'}")
        assert editor.text() == small_program.SMOOTH
        editor.do(f"buffer {program / 'main.cu'}")
        editor.undo()
        assert editor.text() == small_program.MAIN
    # Nothing is lost: what the message says brings the result.
    command = re.search(r"stitchcuda (runs apply \S+(?: --unvalidated)?)", told)
    assert command is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg" / "cache"))
    assert main(command[1].split()) == 0
    assert "cudaDeviceSynchronize" not in (program / "main.cu").read_text(encoding="utf-8")


@pytest.mark.parametrize("typed_in", ["main.cu", "smooth.cu"])
def test_a14_an_edit_that_meets_a_changed_buffer_changes_no_file(typed_in: str, tmp_path: Path) -> None:
    """The text changes between the server's last look and the edit: here, just before Neovim would apply it."""
    program = small_program.write(tmp_path)
    with neovim(tmp_path) as editor:
        for name in ("main.cu", "smooth.cu"):
            editor.open(program / name)
        editor.lua(
            """
            local typed_in = ...
            local edits = require("stitchcuda.edits")
            local apply = edits.apply
            edits.apply = function(...)
              vim.api.nvim_buf_set_lines(vim.fn.bufnr(typed_in), 0, 0, true, { "// typed" })
              return apply(...)
            end
            """,
            str(program / typed_in),
        )
        editor.do("StitchCuda")
        told = editor.wait_said("not applied: ")
        assert f"{typed_in} was changed in the editor meanwhile. Nothing is lost: stitchcuda runs apply " in told
        for name in ("main.cu", "smooth.cu"):
            assert editor.text(program / name) == ("// typed\n" if name == typed_in else "") + small_program.FILES[name]


def test_a14_a_buffer_that_cannot_be_changed_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    program = small_program.write(tmp_path)
    with neovim(tmp_path) as editor:
        for name in ("main.cu", "smooth.cu"):
            editor.open(program / name)
        editor.do("setlocal nomodifiable")  # the second of the edit's files
        editor.do("StitchCuda")
        told = editor.wait_said("not applied: ")
        assert (
            "smooth.cu cannot be changed in the editor ('nomodifiable'). Nothing is lost: stitchcuda runs apply "
            in told
        )
        for name in ("main.cu", "smooth.cu"):
            assert editor.text(program / name) == small_program.FILES[name]


def test_a13_a_cancelled_job_ends_and_changes_nothing(tmp_path: Path) -> None:
    program = small_program.write(tmp_path)
    with neovim(tmp_path) as editor:
        editor.open(program / "main.cu")
        editor.do("StitchCuda")
        editor.wait_for("require('stitchcuda').statusline():find('Stitch') ~= nil")
        began = time.monotonic()
        editor.do("StitchCudaCancel")
        editor.wait_said("cancelled: Stitch end-to-end: program")
        (job,) = editor.wait_until(
            lambda: [j for j in editor.jobs() if j["state"] == "cancelled"] or None, "the end of the job"
        )
        assert time.monotonic() - began < 5
        assert job["title"] == "Stitch end-to-end: program"
        editor.wait_for("require('stitchcuda').statusline() == ''")
        assert editor.lua("return _G.labels") == [] and editor.text() == small_program.MAIN


def test_validate_is_refused_in_a_folder_that_is_not_trusted_and_unsaved_text_is_named(tmp_path: Path) -> None:
    program = small_program.write(tmp_path)
    with neovim(tmp_path) as editor:
        editor.lua("_G.answers = { 2 }")
        editor.open(program / "main.cu")
        editor.do("StitchCudaValidate")
        editor.wait_said("the workspace is not trusted, so nothing of it is built or run")
        editor.lua("vim.api.nvim_buf_set_lines(0, 0, 0, true, { '// typed' })")
        editor.do("StitchCuda")
        editor.wait_said("main.cu first: stitching reads the files as they are saved")
        assert len(editor.lua("return _G.asked")) == 1, "the answer holds"


def test_a_validated_version_and_a_verdict_say_what_is_gained(tmp_path: Path) -> None:
    program = small_program.write(tmp_path)
    git = ["git", "-C", str(program), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    serving = Serving(tmp_path)
    before = "vim.lsp.config('stitchcuda', { init_options = { trusted = true } })"
    with neovim(tmp_path, server=[str(serving.command), "lsp", "--stdio"], before=before) as editor:
        editor.open(program / "main.cu")
        editor.do("StitchCudaValidate")
        editor.wait_said("stitchcuda: program: unproven: there is no CUDA compiler on this machine")
        with serving.agreeing():
            editor.do("StitchCuda")
            editor.wait_said("stitchcuda: program: improved: latency 1.50 times as fast (1.40 to 1.60)")
            assert editor.lua("return _G.labels") == ["Stitch end-to-end: improved"]
            assert waits(editor, program / "main.cu", program / "smooth.cu") == [0, 0]
            editor.do("silent wall")
            editor.do("StitchCudaValidate")
            editor.wait_said("stitchcuda: program: accepted: latency 1.50 times as fast (1.40 to 1.60)")


def test_unsaved_text_counts_in_files_that_have_nothing_of_cuda(tmp_path: Path) -> None:
    """A header that was open, and typed in, before there was a server."""
    program = small_program.write(tmp_path)
    with neovim(tmp_path) as editor:
        editor.do(f"edit {program / 'smooth.h'}")
        editor.lua("vim.api.nvim_buf_set_lines(0, 0, 0, true, { '// typed' })")
        editor.open(program / "main.cu")
        editor.wait_for("vim.tbl_count(vim.lsp.get_clients()[1].attached_buffers) == 2")
        editor.do("StitchCuda")
        editor.wait_said(f"save {program / 'smooth.h'} first: stitching reads the files as they are saved")


def test_a_file_that_no_server_follows_is_not_changed_over_unsaved_text(tmp_path: Path) -> None:
    program = small_program.write(tmp_path)
    with neovim(tmp_path) as editor:
        editor.open(program / "main.cu")
        editor.do(f"noautocmd edit {program / 'smooth.cu'}")
        editor.lua("vim.api.nvim_buf_set_lines(0, 0, 0, true, { '// typed' })")
        editor.do(f"buffer {program / 'main.cu'}")
        editor.do("StitchCuda")
        editor.wait_said(
            "not applied: smooth.cu has text in the editor that is not saved. Nothing is lost: stitchcuda runs "
        )
        assert editor.text() == small_program.MAIN
        assert editor.text(program / "smooth.cu") == "// typed\n" + small_program.SMOOTH


@pytest.mark.parametrize("transform", sorted(REWRITTEN))
def test_each_rewrite_alone_is_an_edit_of_its_own(transform: str, tmp_path: Path) -> None:
    files, name, gone = REWRITTEN[transform]
    program = program_of(tmp_path, files)
    with neovim(tmp_path) as editor:
        editor.open(program / name)
        assert transform in editor.lua("return vim.fn.getcompletion('StitchCudaRewrite ', 'cmdline')")
        editor.do(f"StitchCudaRewrite {transform}")
        editor.wait_said(STITCHED)
        assert gone not in editor.text(program / name)
        (label,) = editor.lua("return _G.labels")
        assert label.endswith(": not validated")
        for changed in editor.lua(
            "return vim.tbl_filter(function(b) return vim.bo[b].modified end, vim.api.nvim_list_bufs())"
        ):
            editor.do(f"buffer {changed}")
            editor.undo()
            assert editor.text() == files[Path(editor.nvim.current.buffer.name).name]


def test_there_is_a_program_for_each_rewrite() -> None:
    assert set(REWRITTEN) == set(IDS)


def test_a_rewrite_that_does_not_exist_is_named(tmp_path: Path) -> None:
    program = small_program.write(tmp_path)
    with neovim(tmp_path) as editor:
        editor.open(program / "smooth.cu")
        editor.do("StitchCudaRewrite no-such-thing")
        editor.wait_said("there is no rewrite no-such-thing; the rewrites are ")
        assert not any("trust" in told for told in editor.said()), "nothing is asked for what cannot be done"
        assert editor.lua("return vim.fn.getcompletion('StitchCudaRewrite remove-wait sm', 'cmdline')") == ["smooth"]


def test_a_model_is_asked_only_after_a_yes_to_neovims_own_question(tmp_path: Path) -> None:
    program = small_program.write(tmp_path)
    before = "vim.lsp.config('stitchcuda', { init_options = { trusted = true, proposer = 'llm' } })"
    with ScriptedEndpoint(then=nothing_left()) as endpoint:
        env = {"STITCHCUDA_LLM_URL": endpoint.url, "STITCHCUDA_LLM_MODEL": "coder"}
        with neovim(tmp_path, before=before, env=env) as editor:
            editor.open(program / "main.cu")
            for answer, told in ((2, "you did not agree"), (None, "the question was dismissed")):
                editor.lua("_G.answers, _G.asked = { ... }, {}", *([answer] if answer else []))
                editor.do("StitchCuda")
                editor.wait_said(f"the model was not asked, and nothing was sent or run: {told}")
                (question,) = editor.lua("return _G.asked")
                assert endpoint.url in question and "main.cu, smooth.cu" in question
            assert not endpoint.all_requests
            editor.lua("_G.answers = { 1 }")
            editor.do("StitchCuda")
            editor.wait_until(lambda: endpoint.all_requests or None, "a request to the model", 60)
            editor.do("StitchCudaCancel")
            editor.wait_said("cancelled: Stitch end-to-end")


def test_a_question_waits_until_nothing_is_typed(tmp_path: Path) -> None:
    """With Neovim's own prompt, which takes keys."""
    program = small_program.write(tmp_path)
    before = "vim.lsp.config('stitchcuda', { init_options = { trusted = true, proposer = 'llm' } })"
    with ScriptedEndpoint(then=nothing_left()) as endpoint:
        env = {"STITCHCUDA_LLM_URL": endpoint.url, "STITCHCUDA_LLM_MODEL": "coder"}
        with neovim(tmp_path, before=before, env=env) as editor:
            editor.nvim.ui_attach(100, 30, rgb=True)
            editor.lua("vim.ui.select = _G.neovims_select")
            editor.open(program / "main.cu")
            editor.do("StitchCuda")
            editor.type("O// ")
            typed, more = "", 60
            while more:
                editor.type("ab 1 ")
                typed += "ab 1 "
                time.sleep(0.02)
                assert mode(editor) == "i"
                more -= any(endpoint.url in told for told in editor.said())  # and on, once the question is known
                assert len(typed) < 20_000, "no question came"
            editor.type("<Esc>")
            editor.wait_until(lambda: mode(editor) not in ("n", "i") or None, "the prompt")
            editor.type("2<CR>")
            editor.wait_until(lambda: mode(editor) == "n" or None, "the end of the prompt")
            editor.wait_said("the model was not asked, and nothing was sent or run: you did not agree")
            assert editor.text() == f"// {typed}\n{small_program.MAIN}" and not endpoint.all_requests


def test_progress_and_the_result_are_shown_in_the_message_area(tmp_path: Path) -> None:
    program = small_program.write(tmp_path)
    with neovim(tmp_path) as editor:
        editor.nvim.ui_attach(90, 24, rgb=True)
        last = (
            "(function() vim.cmd.redraw() local t = {} for c = 1, vim.o.columns do t[c] = vim.fn.screenstring(vim.o.lines, c) end"
            " local line = table.concat(t) return line:find(..., 1, true) and line end)()"
        )
        editor.open(program / "main.cu")
        editor.do("StitchCuda")
        editor.wait_for(last.replace("...", "'Stitch end-to-end: program'"))
        shown = editor.wait_for(last.replace("...", "'not validated'"))
        assert shown.startswith("stitchcuda: program: not validated: ") and shown.rstrip().endswith("...")
        assert any(len(line) > 90 and "not validated" in line for line in editor.said()), "the whole of it is kept"
