"""Validation on save in a real Neovim: the GPU and the compiler are recorded traces, everything else is real."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.editor.neovim import ROOT, Neovim, neovim

pytestmark = pytest.mark.editor
SPIN = ROOT / "tests" / "gpu" / "programs" / "spin.cu"
REPLAYED = (sys.executable, "-m", "tests.server.programs.tooled_server", "tests.server.programs.replayed_gate")
CODE = "latency-regression"


def ended(editor: Neovim, count: int) -> None:
    """Waits until so many validations have ended."""
    editor.wait_until(
        lambda: (
            sum(j["title"] == "Validate on save: spin.cu" and j["state"] == "done" for j in editor.jobs()) == count
            or None
        ),
        f"validation {count}",
    )


def rounds(editor: Neovim, number: int) -> None:
    editor.do(rf"silent %s/ROUNDS = \zs\d\+/{number}/")
    editor.do("silent write")


def test_a4_a_launch_that_became_slower_is_shown_on_save_moves_and_goes_with_its_fix(tmp_path: Path) -> None:
    source = tmp_path / "spin.cu"
    shutil.copy(SPIN, source)
    # From the start, since the settings themselves are asked for only after the file is open.
    options = "{ trusted = true, validateOnSave = true }"
    before = f"vim.lsp.config('stitchcuda', {{ init_options = {options}, cmd_cwd = {str(ROOT)!r} }})"
    with neovim(tmp_path, REPLAYED, before=before) as editor:
        editor.open(source)
        editor.do("silent write")
        ended(editor, 1)
        assert CODE not in editor.codes(), "the first validation records the baseline"
        rounds(editor, 24000)
        editor.wait_until(lambda: CODE in editor.codes() or None, "the finding")
        ended(editor, 2)
        (slower,) = [d for d in editor.findings() if d["code"] == CODE]
        line = SPIN.read_text(encoding="utf-8").split("\n")[slower["lnum"]]
        assert line.strip() == "mix<<<N / 256, 256>>>(d_values, ROUNDS);"
        assert (slower["source"], slower["severity"]) == ("stitchcuda", 2) and " % more than the " in slower["message"]
        editor.lua("vim.api.nvim_buf_set_lines(0, 0, 0, true, { '// above' })")
        moved = [slower["lnum"] + 1]
        editor.wait_until(
            lambda: [d["lnum"] for d in editor.findings() if d["code"] == CODE] == moved or None, "its move"
        )
        editor.undo()
        rounds(editor, 20000)
        editor.wait_until(lambda: CODE not in editor.codes() or None, "the end of the finding")
        ended(editor, 3)
        assert CODE not in editor.codes()
