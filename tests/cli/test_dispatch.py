"""How `stitchcuda` ends: exit codes, messages, and no traceback, whatever happens inside."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from stitchcuda.server.cli import dispatch
from stitchcuda.server.cli.errors import CannotRun

COMMAND = (sys.executable, "-P", "-m", "stitchcuda.server.cli")


def replace_doctor(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    module = types.SimpleNamespace(add_arguments=lambda parser: None, run=run)
    monkeypatch.setattr(importlib, "import_module", lambda name: module)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {command.name} " in out and command.summary in out for command in dispatch.COMMANDS)


def test_help_is_a_word_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch.main(["help"]) == 0 and "commands:" in capsys.readouterr().out
    assert dispatch.main(["help", "graph"]) == 0 and "usage: stitchcuda graph" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch.main(["--version"]) == 0
    assert capsys.readouterr().out == f"stitchcuda {importlib.metadata.version('stitchcuda')}\n"


def test_version_without_an_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dispatch.version.cache_clear()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "gone")])
    assert dispatch.version() == "(not installed)"
    dispatch.version.cache_clear()


@pytest.mark.parametrize("words", [["bogus"], ["--bogus"], [], ["doctor", "--bogus"], [""]])
def test_bad_command_lines_exit_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch.main(words) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.err or "usage: stitchcuda" in captured.out


def test_unknown_command_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    dispatch.main(["chekc"])
    assert capsys.readouterr().err.startswith("stitchcuda: unknown command 'chekc'; the commands are check, ")


@pytest.mark.parametrize("command", dispatch.COMMANDS, ids=lambda command: command.name)
def test_every_command_has_its_module(command: dispatch.Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch.main([command.name, "--help"]) == 0
    assert f"usage: stitchcuda {command.name}" in capsys.readouterr().out


def test_what_the_user_has_to_mend(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(_: object) -> int:
        raise CannotRun("x.cu: no such file")

    replace_doctor(monkeypatch, run)
    assert dispatch.main(["doctor"]) == 2
    assert capsys.readouterr().err == "stitchcuda: x.cu: no such file\n"


def test_a_bug_is_reported_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    replace_doctor(monkeypatch, lambda _: os.environ["not set anywhere"])
    assert dispatch.main(["doctor"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("stitchcuda: internal error: KeyError: 'not set anywhere'\n")
    (details,) = tmp_path.iterdir()
    assert str(details) in err and "Traceback" not in err
    assert "Traceback" in details.read_text(encoding="utf-8")


def test_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(_: object) -> int:
        raise KeyboardInterrupt

    replace_doctor(monkeypatch, run)
    assert dispatch.main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes close differently on Windows")
def test_a_reader_that_goes_away_is_not_an_error() -> None:
    process = subprocess.Popen([*COMMAND, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(timeout=30) == 141


def test_output_that_the_terminal_cannot_encode() -> None:
    code = "import sys; from stitchcuda.server.cli import main; sys.exit(main(['explain', '\u65e0']))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
        timeout=30,
    )
    assert (done.returncode, done.stderr[:12]) == (2, "stitchcuda: ")


def test_starting_is_quick_because_commands_are_imported_late() -> None:
    code = (
        "import sys; from stitchcuda.server.cli import main; main(['--version']); print(sorted(set(sys.modules) & set("
        "['pygls', 'lsprotocol', 'openai', 'tree_sitter', 'asyncio', 'subprocess', 'stitchcuda.analysis.index'])))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines()[-1] == "[]"
