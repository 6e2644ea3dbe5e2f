"""The plugin of editors/nvim in a real Neovim with the real server: findings in place, fixes, and the views."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies
from stitchcuda.server import sources

from tests.editor.neovim import PLUGIN, Neovim, binary, copied, environment, neovim
from tests.server.client import ROOT
from tests.server.test_session import RACE

pytestmark = pytest.mark.editor
TRACES = ROOT / "tests" / "fixtures" / "traces"
RACING_LAUNCH = "consume<<<4, 256, 0, b>>>(x, y, n)"


def written(folder: Path, name: str, text: str = RACE) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def commands() -> set[str]:
    """The user commands that the plugin makes."""
    source = (PLUGIN / "lua" / "stitchcuda" / "commands.lua").read_text(encoding="utf-8")
    return set(re.findall(r'define\("(StitchCuda\w*)"', source))


def on_finding(editor: Neovim) -> None:
    """Puts the cursor on the only finding."""
    (finding,) = editor.findings()
    editor.cursor(finding["lnum"] + 1, finding["col"] + 1)


def test_a1_a_finding_comes_once_and_a3_goes_with_its_fix(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.open(written(tmp_path, "race.cu"))
        (race,) = editor.wait_codes("stream-race-raw")
        line = RACE.encode().split(b"\n")[race["lnum"]]
        assert line[race["col"] : race["end_col"]] == RACING_LAUNCH.encode()
        assert editor.lua("return vim.lsp.get_clients({ name = 'stitchcuda' })[1].offset_encoding") == "utf-8"
        on_finding(editor)
        editor.take_action("quickfix", "Make stream `b` wait")
        editor.wait_until(lambda: "cudaStreamWaitEvent(b, " in editor.text() or None, "the fix")
        editor.wait_codes()
        editor.undo()
        assert editor.text() == RACE
        editor.wait_codes("stream-race-raw")
        # What other channels may have brought is in namespaces of their own.
        namespaces = editor.lua("return vim.tbl_map(function(d) return d.namespace end, vim.diagnostic.get(0))")
        assert len(namespaces) == 1
        editor.do("%delete")
        editor.wait_codes()


def _is_known(editor: Neovim, digest: str) -> bool:
    return digest in editor.texts().values()


def test_a6_a_file_saved_with_other_line_ends_is_not_taken_for_unsaved(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        file = written(tmp_path, "race.cu")
        editor.open(file)
        editor.wait_codes("stream-race-raw")
        for command in ("set fileformat=dos", "set fileformat=unix noendofline nofixendofline", "set endofline bomb"):
            editor.do(f"{command} | write")
            saved = sha256(file.read_bytes().removeprefix(b"\xef\xbb\xbf")).hexdigest()
            editor.wait_until(partial(_is_known, editor, saved), f"the saved text after {command}")
            editor.wait_codes("stream-race-raw")
        on_finding(editor)
        editor.take_action("quickfix", "Make stream `b` wait")
        editor.wait_codes()
        editor.undo()
        assert editor.text() == RACE


def test_a10_suppress_on_this_line(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.open(written(tmp_path, "race.cu"))
        editor.wait_codes("stream-race-raw")
        on_finding(editor)
        editor.take_action("quickfix", "Suppress stream-race-raw")
        editor.wait_codes()
        assert "// stitchcuda: ignore[stream-race-raw]" in editor.text()
        editor.undo()
        editor.wait_codes("stream-race-raw")
        assert editor.text() == RACE


def test_hover_lenses_symbols_and_hints_answer(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.open(written(tmp_path, "race.cu"))
        editor.wait_codes("stream-race-raw")
        on_finding(editor)
        asked = editor.lua(
            """
            local client, found = vim.lsp.get_clients({ bufnr = 0, name = "stitchcuda" })[1], {}
            local here = vim.lsp.util.make_position_params(0, client.offset_encoding)
            local all = { textDocument = here.textDocument, range = { start = { line = 0, character = 0 }, ["end"] = { line = 20, character = 0 } } }
            for method, params in pairs({
              ["textDocument/hover"] = here, ["textDocument/codeLens"] = all, ["textDocument/documentSymbol"] = all, ["textDocument/inlayHint"] = all,
            }) do
              if client:supports_method(method, 0) then
                local answer = client:request_sync(method, params, 10000, 0)
                found[method] = answer and (answer.err and vim.inspect(answer.err) or vim.json.encode(answer.result)) or "no answer"
              end
            end
            vim.lsp.codelens.refresh({ bufnr = 0 })
            vim.lsp.inlay_hint.enable(true, { bufnr = 0 })
            return found
            """
        )
        assert "`consume`" in asked["textDocument/hover"]
        assert "2 kernels, 2 streams" in asked["textDocument/codeLens"]
        assert '"main"' in asked["textDocument/documentSymbol"]
        assert all(not answer.startswith(("{\n", "no answer")) for answer in asked.values()), asked
        lenses = editor.wait_for("vim.tbl_count(vim.lsp.codelens.get(0)) > 0 and vim.lsp.codelens.get(0)")
        assert any("Show graph" in lens["command"]["title"] for lens in lenses)
        assert editor.said() == []


def test_the_graph_is_a_buffer_that_leads_to_the_source(tmp_path: Path) -> None:
    source = written(tmp_path, "race.cu")
    with neovim(tmp_path) as editor:
        editor.open(source)
        editor.do("StitchCudaGraph main")
        editor.wait_until(lambda: "In short:" in editor.text() or None, "the graph")
        assert editor.nvim.current.buffer.options["modifiable"] is False
        lines = editor.text().split("\n")
        at = next(i for i, line in enumerate(lines) if "`consume` runs on stream `b`" in line)
        editor.cursor(at + 1)
        editor.type("<CR>")
        wanted = RACE.split("\n").index(next(line for line in RACE.split("\n") if RACING_LAUNCH in line)) + 1
        editor.wait_until(lambda: editor.nvim.current.window.cursor[0] == wanted or None, "the jump")
        assert editor.nvim.current.buffer.name == str(source)
        # Read again after a change, with a function that is gone.
        editor.lua("vim.api.nvim_buf_set_lines(0, 16, 17, true, {})")
        editor.do("wincmd p")
        editor.do("edit")
        editor.wait_until(
            lambda: "`consume` runs" not in editor.text() and "In short:" in editor.text() or None, "a new graph"
        )
        editor.do("StitchCudaGraph nothing")
        editor.wait_until(
            lambda: editor.text().strip() == "stitchcuda: no function 'nothing' with a body in race.cu" or None,
            "the answer",
        )
        editor.do("close")
        assert editor.lua("return vim.fn.getcompletion('StitchCudaGraph ma', 'cmdline')") == ["main"]
        editor.do(f"edit stitchcuda-graph://{source}")  # typed by hand, without a function
        editor.wait_until(lambda: "In short:" in editor.text() or None, "the graph of the file")


def test_a_measured_run_is_a_buffer_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "programs" / "streams.cu"  # the folder as where it was traced
    source.parent.mkdir()
    source.write_bytes((TRACES / "programs" / "streams.cu").read_bytes())
    with neovim(tmp_path) as editor:
        editor.open(source)
        editor.do(f"StitchCudaMeasured {TRACES / 'streams.json'}")
        editor.wait_until(lambda: "Where the device had nothing to do:" in editor.text() or None, "the run")
        lines = editor.text().split("\n")
        at = next(i for i, line in enumerate(lines) if "us: `scale` on stream first (streams.cu:29)" in line)
        editor.cursor(at + 1)
        editor.type("<CR>")
        editor.wait_until(lambda: editor.nvim.current.window.cursor[0] == 29 or None, "the jump")
        assert editor.nvim.current.buffer.name == str(source)
        editor.do("StitchCudaMeasured")
        editor.wait_until(
            lambda: editor.text().startswith("stitchcuda: no run of streams.cu is kept that measured it") or None,
            "the answer",
        )


def test_the_page_of_the_graph_opens_in_the_browser_or_its_file_is_named(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.open(written(tmp_path, "race.cu"))
        editor.lua("vim.ui.open = function(file) _G.opened = file return vim.system({ 'true' }) end")
        editor.do("StitchCudaGraph! main")
        page = Path(editor.wait_for("_G.opened")).read_text(encoding="utf-8")
        assert page.lower().startswith("<!doctype html>") and "consume" in page
        editor.lua("vim.ui.open = function() return nil, 'no opener' end")
        editor.do("StitchCudaGraph!")
        told = editor.wait_said("no browser could be opened; the page is ")
        assert Path(told.split("the page is ")[1]).suffix == ".html"


def test_only_a_server_that_the_plugin_finds_is_told_the_process(tmp_path: Path) -> None:
    """A command of the user's own may lead to another machine, where the number means something else."""
    told = """
    local params = { processId = 1 }
    require("stitchcuda.server").before_init(params, { root_dir = "/" })
    return params.processId == 1
    """
    with neovim(tmp_path) as editor:
        assert editor.lua(told)
        editor.lua("require('stitchcuda').setup({ server = { 'true', 'lsp' } })")
        assert not editor.lua(told)
        editor.lua(
            "require('stitchcuda').setup({ server = 'stitchcuda' }) vim.lsp.config('stitchcuda', { cmd = { 'true' } })"
        )
        assert not editor.lua(told)


def test_a_lens_shows_the_graph_in_a_buffer(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.open(written(tmp_path, "race.cu"))
        editor.wait_codes("stream-race-raw")
        editor.lua("vim.lsp.codelens.refresh({ bufnr = 0 })")
        lenses = editor.wait_for("vim.tbl_count(vim.lsp.codelens.get(0)) > 0 and vim.lsp.codelens.get(0)")
        lens = next(lens for lens in lenses if "Show graph" in lens["command"]["title"])
        editor.cursor(lens["range"]["start"]["line"] + 1)
        editor.lua(
            "vim.ui.select = function(items, _, chosen) for i, item in ipairs(items) do if vim.inspect(item):find('Show graph') then return chosen(item, i) end end end"
        )
        editor.lua("vim.lsp.codelens.run()")
        editor.wait_until(lambda: "In short:" in editor.text() or None, "the graph")
        assert editor.nvim.current.buffer.options["filetype"] == "stitchcuda-graph"


def test_lenses_are_kept_fresh_by_what_this_neovim_has_for_it(tmp_path: Path) -> None:
    shown = "vim.tbl_count(vim.lsp.codelens.get(0))"
    with neovim(tmp_path) as editor:
        editor.lua("require('stitchcuda').setup({ codelens = true })")
        editor.open(written(tmp_path, "race.cu"))
        editor.wait_for(f"{shown} > 0")
    # SIMULATED: what Neovim 0.12 has in place of `refresh`, which it calls deprecated.
    newer = """
    _G.switched = {}
    vim.lsp.codelens.refresh = function() error("deprecated") end
    vim.lsp.codelens.enable = function(on, filter) table.insert(_G.switched, { on, filter.client_id }) end
    """
    with neovim(tmp_path, before=newer) as editor:
        editor.lua("require('stitchcuda').setup({ codelens = true })")
        editor.open(written(tmp_path, "race.cu"))
        (client,) = editor.lua("return vim.tbl_map(function(c) return c.id end, vim.lsp.get_clients())")
        editor.lua("require('stitchcuda').setup({ codelens = false })")
        assert editor.lua("return _G.switched") == [[True, client], [False, client]]
        assert not any("deprecated" in told for told in editor.said())


def test_explain_shows_the_page_of_the_finding_under_the_cursor(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.open(written(tmp_path, "race.cu"))
        editor.wait_codes("stream-race-raw")
        on_finding(editor)
        editor.do("StitchCudaExplain")
        floating = "vim.iter(vim.api.nvim_list_wins()):find(function(w) return vim.api.nvim_win_get_config(w).relative ~= '' end)"
        window = editor.wait_for(floating)
        shown = "\n".join(
            editor.lua("return vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(...), 0, -1, false)", window)
        )
        assert "stream-race-raw" in shown
        assert "nothing orders the read after the write: no event" in shown, "paragraphs are not cut where the page is"
        assert "```cuda\nproduce<<<" in shown or "\nproduce<<<" in shown
        editor.do("StitchCudaExplain no-such-code")
        editor.wait_said("no finding has the code 'no-such-code'")
        editor.cursor(1)
        editor.do("StitchCudaExplain")
        editor.wait_said("there is no finding in this line")
        assert "stream-race-war" in editor.lua("return vim.fn.getcompletion('StitchCudaExplain stream-', 'cmdline')")


def test_status_and_health_say_what_runs(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.open(written(tmp_path, "race.cu"))
        editor.do("StitchCudaStatus")
        editor.wait_said("  command: ")
        told = "\n".join(editor.said())
        assert f"in {tmp_path}" in told and "not trusted, nothing is built or run (:StitchCudaTrust)" in told
        editor.do("StitchCudaCancel")
        editor.wait_said("no job is running")
        editor.do("StitchCudaLog")
        assert editor.nvim.current.buffer.name.endswith("lsp.log") or editor.wait_said("there is no log yet")
        editor.do("checkhealth stitchcuda")
        page = editor.text()
        assert f"{Path(sys.executable).parent / 'stitchcuda'} lsp --stdio: stitchcuda " in page
        assert (
            "runs in" in page
            and "for 1 buffer\n" in page
            and "Neovim, which takes" not in page
            and "no node" not in page
        )
        assert "ERROR" not in page and "is not trusted: nothing of it is built or run" in page and "nvcc" in page


def test_a_missing_server_is_told_once_with_what_to_do(tmp_path: Path) -> None:
    plugin = copied(tmp_path)
    with neovim(tmp_path, env={"PATH": "/usr/bin:/bin"}, plugin=plugin) as editor:
        editor.do(f"edit {written(tmp_path, 'race.cu')}")
        told = editor.wait_said("the command stitchcuda was not found. :checkhealth stitchcuda says what to do")
        assert len(told) <= 100, "what to do is seen on one line"
        editor.do(f"edit {written(tmp_path, 'other.cu')}")
        editor.do(f"edit {written(tmp_path, 'third.c')}")
        editor.do("StitchCuda")
        assert sum("was not found" in told for told in editor.said()) == 2, "once at the start, once for the command"
        editor.do("checkhealth stitchcuda")
        page = re.sub("❌ ", "", editor.text())
        assert "ERROR the command stitchcuda was not found" in page
        assert f"Install it with \"pip install '{plugin.parents[1]}'\"" in " ".join(page.split())


def test_the_server_that_the_checkout_has_is_found(tmp_path: Path) -> None:
    """As the README's first command leaves it: in the checkout's environment, with nothing on PATH."""
    plugin = copied(tmp_path)
    own = plugin.parents[1] / ".venv" / "bin"
    own.mkdir(parents=True)
    (own / "stitchcuda").symlink_to(Path(sys.executable).with_name("stitchcuda"))
    with neovim(tmp_path, env={"PATH": "/usr/bin:/bin"}, plugin=plugin) as editor:
        editor.open(written(tmp_path, "race.cu"))
        editor.wait_codes("stream-race-raw")
        editor.do("StitchCudaStatus")
        editor.wait_said(f"command: {own / 'stitchcuda'} lsp --stdio")


def test_a_server_that_does_not_start_is_told(tmp_path: Path) -> None:
    with neovim(tmp_path, server=[sys.executable, "-c", "raise SystemExit(3)"]) as editor:
        editor.do(f"edit {written(tmp_path, 'race.cu')}")
        editor.wait_said("the server ended with exit code 3 before it was ready")


def test_an_old_neovim_is_told_what_it_needs(tmp_path: Path) -> None:
    old = "lua vim.fn.has = function() return 0 end"
    command = [
        binary(),
        "--clean",
        "--headless",
        "--cmd",
        old,
        "-c",
        f"source {PLUGIN}/plugin/stitchcuda.lua",
        "-c",
        "qall!",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment(tmp_path))
    assert "stitchcuda needs Neovim 0.11 or newer" in done.stderr
    assert "E492" not in done.stderr


def test_a_server_without_a_command_is_told_to_be_updated(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.open(written(tmp_path, "race.cu"))
        editor.lua(
            "vim.lsp.get_clients()[1].server_capabilities.executeCommandProvider.commands = { 'stitchcuda.status' }"
        )
        editor.do("StitchCudaRewrite remove-wait")
        editor.wait_said("has no command stitchcuda.rewrite: update it")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"sever": "x"}, 'there is no option "sever"'),
        ({"progress": "yes"}, "progress must be a boolean, not a string"),
        ({"server": [1]}, "server must be a list of words"),
    ],
)
def test_a_wrong_option_is_named(option: dict[str, object], told: str, tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        assert told in editor.lua("return select(2, pcall(require('stitchcuda').setup, ...))", option)


def test_settings_reach_the_server(tmp_path: Path) -> None:
    with neovim(tmp_path, settings={"ignore": ["stream-race-raw"], "nonsense": 1}) as editor:
        editor.open(written(tmp_path, "race.cu"))
        editor.wait_said("unknown setting 'nonsense'")
        editor.wait_for(
            "not vim.lsp.get_clients()[1]:request_sync('workspace/executeCommand', { command = 'stitchcuda.graphText', arguments = { vim.uri_from_bufnr(0) } }, 9000, 0).err"
        )
        assert editor.codes() == []


@pytest.mark.parametrize(
    ("name", "text", "attached"),
    [
        ("plain.cpp", "int main() { return 0; }\n", False),
        ("host.cpp", "#include <cuda_runtime.h>\nint main() { cudaDeviceSynchronize(); }\n", True),
        ("plain.py", "import sys\n", False),
        ("arrays.py", "import cupy\n", True),
        ("tensors.py", "import torch\nx = torch.zeros(4, device='cuda')\n", True),
        ("kernel.cuh", "\n", True),
        ("stitchcuda.toml", "", True),
    ],
)
def test_it_starts_where_the_server_has_something_to_say(name: str, text: str, attached: bool, tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.do(f"edit {written(tmp_path, name, text)}")
        if attached:
            editor.wait_attached()
            return
        assert editor.lua("vim.wait(300) return #vim.lsp.get_clients()") == 0
        editor.lua(
            "vim.api.nvim_buf_set_lines(0, 0, 0, true, { ... })",
            "import cupy" if name.endswith("py") else "#include <cuda.h>",
        )
        editor.do("write")
        editor.wait_attached()


def test_the_plugin_lets_through_whatever_the_server_may_want() -> None:
    source = (PLUGIN / "lua" / "stitchcuda" / "relevance.lua").read_text(encoding="utf-8")
    lists = {
        name: set(re.findall(r'"([^"]+)"', body))
        for name, body in re.findall(r"M\.(\w+) = \{(.+?)\}", source, re.DOTALL)
    }
    assert lists["python_words"] == {"cupy", "torch"}

    @settings(max_examples=500, database=None)
    @given(strategies.from_regex(sources._CUDA))
    def what_the_server_takes_for_cuda_has_a_word_of_the_plugin(text: bytes) -> None:
        assert any(word.encode() in text for word in lists["words"])

    what_the_server_takes_for_cuda_has_a_word_of_the_plugin()
    for word in lists["python_words"]:
        assert sources.is_relevant("a.py", "python", f"import {word}\nx.to('cuda')\n".encode())


def test_the_help_has_a_tag_for_every_command(tmp_path: Path) -> None:
    help_file = PLUGIN / "doc" / "stitchcuda.txt"
    folder = tmp_path / "doc"
    folder.mkdir()
    (folder / help_file.name).write_bytes(help_file.read_bytes())
    command = [binary(), "--clean", "--headless", "-c", f"helptags {folder}", "-c", "qall!"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
    assert "Error" not in done.stderr, done.stderr
    tags = {line.split("\t")[0] for line in (folder / "tags").read_text(encoding="utf-8").splitlines()}
    created = commands()
    assert len(created) >= 9 and {f":{name}" for name in created} <= tags
    options = set(
        re.findall(
            r"^  (\w+) = \{ \"", (PLUGIN / "lua" / "stitchcuda" / "init.lua").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert options and {f"stitchcuda-{name}" for name in options} <= tags
    assert max(map(len, help_file.read_text(encoding="utf-8").splitlines())) <= 78


def test_the_page_names_every_command_and_its_first_line_installs_the_plugin(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8").split("\n## Neovim\n")[1]
    assert set(re.findall(r"`:(StitchCuda\w*)", page)) == commands()
    first = re.search(r'^(vim\.opt\.runtimepath:prepend\(".+?"\))', page, re.MULTILINE)
    assert first is not None
    init = written(tmp_path, "init.lua", first[1].replace("/path/to/stitchcuda/editors/nvim", str(PLUGIN)) + "\n")
    source = written(tmp_path, "race.cu")
    wait = "lua print(vim.wait(30000, function() return #vim.diagnostic.get(0) == 1 end, 50) and vim.fn.exists(':StitchCuda'))"
    command = [binary(), "--clean", "-u", str(init), "--headless", str(source), "-c", wait, "-c", "qall!"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment(tmp_path))
    assert done.stderr.strip().split("\n")[-1].strip() == "2", done.stderr
