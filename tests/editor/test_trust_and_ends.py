"""Trust by folder, and what happens when the server ends: in a real Neovim."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.editor.neovim import Neovim, copied, neovim, server_pids
from tests.editor.test_plugin import written
from tests.server import small_program
from tests.server.client import REAL
from tests.server.test_session import RACE

pytestmark = pytest.mark.editor
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def trusted(editor: Neovim) -> bool:
    value: bool = editor.lua(
        """
        local client = vim.lsp.get_clients({ bufnr = 0, name = "stitchcuda" })[1]
        local answer = client:request_sync("workspace/executeCommand", { command = "stitchcuda.status", arguments = {} }, 9000)
        return answer.result.trusted
        """
    )
    return value


def ids(editor: Neovim) -> list[int]:
    found: list[int] = editor.lua("return vim.tbl_map(function(c) return c.id end, vim.lsp.get_clients())")
    return found


def restarted(editor: Neovim, before: list[int]) -> None:
    editor.wait_until(lambda: (now := ids(editor)) and not set(now) & set(before), "a new server")
    editor.wait_attached()


def test_a25_a_folder_is_trusted_when_the_user_says_so_and_that_is_remembered(tmp_path: Path) -> None:
    source = written(tmp_path, "race.cu")
    with neovim(tmp_path) as editor:
        editor.open(source)
        assert not trusted(editor)
        before = ids(editor)
        editor.do("StitchCudaTrust")  # not answered
        editor.lua("_G.answers = { 2 }")
        editor.do("StitchCudaTrust")  # no
        assert ids(editor) == before and not trusted(editor)
        editor.lua("_G.answers = { 1 }")
        editor.do("StitchCudaTrust")  # yes
        restarted(editor, before)
        assert trusted(editor)
        editor.wait_said(f"stitchcuda: {tmp_path} is trusted")
        assert all(f"trust {tmp_path} and what is below it?" in prompt for prompt in editor.lua("return _G.asked"))
        editor.wait_codes("stream-race-raw")
    state = tmp_path / "xdg" / "state" / "nvim" / "stitchcuda" / "trust.json"
    assert state.exists() and state.stat().st_mode & 0o077 in (0, 0o044)
    inside = tmp_path / "inside"
    inside.mkdir()
    with neovim(tmp_path) as editor:
        editor.open(source)
        assert trusted(editor) and editor.lua("return _G.asked") == []
        editor.open(written(inside, "below.cu"))
        assert trusted(editor), "what is below a trusted folder is trusted"
        before = ids(editor)
        editor.do("StitchCudaTrust!")
        editor.wait_said(f"stitchcuda: {inside} is not trusted")
        editor.wait_until(lambda: len(ids(editor)) == 2 and ids(editor) != before or None, "a new server")
        editor.wait_attached()
        assert not trusted(editor)
        editor.do(f"buffer {source}")
        assert trusted(editor)
    with neovim(tmp_path) as editor:
        state.write_text("{", encoding="utf-8")
        editor.open(source)
        assert not trusted(editor)
        editor.wait_said("trust.json cannot be read, so no folder is trusted")


def test_stitch_asks_once_and_goes_on_when_the_answer_is_yes(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.open(written(tmp_path, "race.cu"))
        before = ids(editor)
        editor.lua("_G.answers = { 1 }")
        editor.do("StitchCudaValidate nope")  # no git here: the job says so, in the server that was started again
        restarted(editor, before)
        (job,) = editor.wait_until(lambda: editor.jobs() or None, "the job")
        assert job["title"] == "Validate: race.cu" and trusted(editor)
        assert len(editor.lua("return _G.asked")) == 1


def test_a25_what_a_folder_brings_is_started_only_when_it_is_trusted(tmp_path: Path) -> None:
    source = written(tmp_path, "race.cu")
    brought = tmp_path / ".venv" / "bin" / "stitchcuda"
    brought.parent.mkdir(parents=True)
    brought.write_text(f'#!/bin/sh\ntouch "{tmp_path}/started"\nexec {shlex.join(REAL[:-2])} "$@"\n', encoding="utf-8")
    brought.chmod(0o755)
    (tmp_path / "stitchcuda.toml").touch()
    plugin = copied(tmp_path / "elsewhere")
    with neovim(tmp_path, env={"PATH": "/usr/bin:/bin"}, plugin=plugin) as editor:
        editor.do(f"edit {source}")
        editor.wait_said(":StitchCudaTrust lets the server in this folder's .venv run")
        assert not (tmp_path / "started").exists()
        editor.lua("_G.answers = { 1 }")
        editor.do("StitchCudaTrust")
        editor.wait_attached()
        editor.wait_codes("stream-race-raw")
        assert (tmp_path / "started").exists()


def test_the_users_configuration_decides_before_all_else(tmp_path: Path) -> None:
    decided = "vim.lsp.config('stitchcuda', { init_options = { trusted = true } })"
    with neovim(tmp_path, before=decided) as editor:
        editor.open(written(tmp_path, "race.cu"))
        assert trusted(editor)
        editor.do("StitchCudaTrust!")
        editor.wait_said("your configuration decides which folders are trusted")


@linux
def test_a_killed_server_is_started_again_and_the_findings_come_back(tmp_path: Path) -> None:
    other = written(tmp_path, "other.cu")
    hidden = "#vim.diagnostic.get(vim.fn.bufnr(...)) == 1"
    with neovim(tmp_path) as editor:
        editor.open(other)
        editor.open(written(tmp_path, "race.cu"))
        editor.wait_codes("stream-race-raw")
        for _ in range(3):
            editor.wait_for(hidden, str(other))
            before = ids(editor)
            (pid,) = server_pids(editor)
            os.kill(pid, signal.SIGKILL)
            restarted(editor, before)
            editor.wait_codes("stream-race-raw")
        assert sum("the server ended unexpectedly (signal 9); it is started again" in t for t in editor.said()) == 3
        (pid,) = server_pids(editor)
        os.kill(pid, signal.SIGKILL)
        editor.wait_said("the server ended 4 times in 3 minutes, now with signal 9. It is not started again")
        assert ids(editor) == []
        editor.do("StitchCudaRestart")
        editor.wait_attached()
        editor.wait_codes("stream-race-raw")


@linux
def test_a18_the_server_ends_with_neovim(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.open(written(tmp_path, "race.cu"))
        editor.wait_codes("stream-race-raw")
        (pid,) = server_pids(editor)
        os.kill(editor.lua("return vim.uv.os_getpid()"), signal.SIGKILL)
        end = time.monotonic() + 5
        while Path(f"/proc/{pid}/cmdline").exists() and time.monotonic() < end:
            time.sleep(0.02)
        assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


def test_restart_and_settings_that_were_changed(tmp_path: Path) -> None:
    with neovim(tmp_path) as editor:
        editor.open(written(tmp_path, "race.cu"))
        editor.wait_codes("stream-race-raw")
        options: dict[str, Any] = {"settings": {"stitchcuda": {"ignore": ["stream-race-raw"]}}}
        editor.lua("vim.lsp.config('stitchcuda', ...)", options)
        before = ids(editor)
        editor.do("StitchCudaRestart")
        restarted(editor, before)
        editor.wait_codes()
        assert editor.text() == RACE
        editor.do("lua vim.lsp.enable('stitchcuda', false)")
        editor.wait_until(lambda: ids(editor) == [] or None, "its end")
        assert not [told for told in editor.said() if "ended" in told], "what the user ends is no accident"


def test_what_is_asked_while_the_server_starts_again_waits_for_the_new_one(tmp_path: Path) -> None:
    program = small_program.write(tmp_path)
    with neovim(tmp_path) as editor:
        editor.open(program / "main.cu")
        editor.lua(
            """
            _G.restarted = {}
            local server, clients = require("stitchcuda.server"), vim.lsp.get_clients({ name = "stitchcuda" })
            for number = 1, 2 do
              server.restart(clients, function() table.insert(_G.restarted, number) end)
            end
            vim.cmd("StitchCudaRewrite remove-wait")
            """
        )
        editor.wait_until(lambda: editor.said() or None, "the result of the rewrite")
        assert not [told for told in editor.said() if "shutting down" in told or "did not start" in told]
        assert editor.lua("return _G.restarted") == [1, 2]
