"""Files, folders and outputs that are not what they seem: pipes, devices, names that are not UTF-8, what may not be read or
written, a full disk. Each gives one message and exit code 2, in bounded time, and nothing is half written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from stitchcuda.server.cli import autofix, dispatch, inputs
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.writing import replace_file

from tests.cli.test_check import RACE

COMMAND = (sys.executable, "-P", "-m", "stitchcuda.server.cli")
posix = pytest.mark.skipif(os.name == "nt", reason="there are no such files on this system")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run((*COMMAND, *words), check=False, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr and "internal error" not in done.stdout + done.stderr
    return done


@posix
@pytest.mark.parametrize("command", ["check", "graph"])
def test_pipes_and_devices_are_not_read(command: str) -> None:
    os.mkfifo("pipe.cu")
    os.symlink("/dev/zero", "endless.cu")
    for name in ("pipe.cu", "endless.cu"):
        done = run(command, name)
        assert (done.returncode, done.stderr) == (2, f"{name}: note: not a regular file: not checked\n")
    Path("a.cu").write_text(RACE + '#include "pipe.cu"\n', encoding="utf-8")
    os.mkfifo("CMakeLists.txt")
    assert run(command, ".").returncode == (1 if command == "check" else 0)


@posix
@pytest.mark.parametrize("command", ["check", "graph"])
def test_a_link_that_leads_nowhere_beside_a_file_changes_nothing(command: str) -> None:
    Path("a.cu").write_text(RACE, encoding="utf-8")
    alone = run(command, "a.cu")
    os.symlink("nowhere", "gone.cu")
    beside = run(command, "a.cu")
    assert (beside.returncode, beside.stdout) == (alone.returncode, alone.stdout)


def test_a_folder_without_cuda_is_no_silent_pass() -> None:
    Path("a.cpp").write_text("int main() { return 0; }\n", encoding="utf-8")
    done = run("check", ".")
    assert (done.returncode, done.stderr) == (0, ".: note: uses no CUDA: nothing to check\n")
    Path("a.cpp").write_bytes(b"int main\0")
    assert run("check", ".").returncode == 2  # nothing of it could be read


def test_stitch_says_why_a_file_cannot_be_read() -> None:
    Path("a.cu").write_bytes(b"int main\0")
    done = run("stitch", "a.cu", "--no-run")
    assert (done.returncode, done.stderr) == (2, "stitchcuda: a.cu: a binary file\n")


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="file names are text on this system")
def test_a_name_that_is_not_utf8() -> None:
    name = os.fsdecode(b"bad\xff.cu")
    Path(name).write_text(RACE, encoding="utf-8")
    for form in ("text", "github", "sarif", "json"):
        done = run("check", name, "--format", form)
        assert done.returncode == 1
    assert json.loads(done.stdout)["findings"][0]["path"] == name
    assert run("graph", name).returncode == 0
    assert run("check", name, "--baseline", "b.json", "--update-baseline").returncode == 0
    assert run("check", name, "--baseline", "b.json").returncode == 0


def test_a_folder_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("shut").mkdir()
    Path("open/shut").mkdir(parents=True)
    Path("open/a.cu").write_text(RACE, encoding="utf-8")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if os.path.basename(path) == "shut":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = inputs.find(["shut"])
    assert found.unusable and [p.what for p in found.problems] == ["cannot be read (Permission denied)"]
    found = inputs.find(["open"])
    assert not found.unusable and len(found.files) == 1
    assert [(p.path, p.what) for p in found.problems] == [
        (os.path.join("open", "shut"), "cannot be read (Permission denied)")
    ]


@posix
@pytest.mark.parametrize(
    "words", [["check", "a.cu"], ["check", "a.cu", "--format", "json"], ["graph", "a.cu"], ["explain"]]
)
def test_output_that_cannot_be_written(words: list[str]) -> None:
    if not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full on this system")
    Path("a.cu").write_text(RACE, encoding="utf-8")
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            (*COMMAND, *words), check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 2
    assert done.stderr == "stitchcuda: the output cannot be written (No space left on device)\n"


def test_sarif_says_that_a_named_file_was_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.cu").write_text(RACE, encoding="utf-8")
    Path("b.cu").write_bytes(b"\0\1")
    for words, code, successful in ((["a.cu"], 1, True), (["a.cu", "b.cu"], 2, False)):
        assert dispatch.main(["check", *words, "--format", "sarif"]) == code
        (run,) = json.loads(capsys.readouterr().out)["runs"]
        assert run["invocations"][0]["executionSuccessful"] is successful


def test_output_that_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.cu").write_text(RACE, encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert dispatch.main(["check", "a.cu"]) == 1
    assert dispatch.main(["graph", "a.cu"]) == 0


def test_a_baseline_nested_too_deeply(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.cu").write_text(RACE, encoding="utf-8")
    Path("b.json").write_text("[" * 200_000, encoding="utf-8")
    assert dispatch.main(["check", "a.cu", "--baseline", "b.json"]) == 2
    assert capsys.readouterr().err == "stitchcuda: b.json: not a baseline file; write it again with --update-baseline\n"


@posix
def test_only_plain_writable_files_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo("pipe")
    Path("folder").mkdir()
    for name, why in (("pipe", "not a regular file"), ("folder", "it is a directory")):
        with pytest.raises(CannotRun, match=why):
            replace_file(name, b"x")
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    Path("a").write_bytes(b"old")
    refused = {"a"}
    monkeypatch.setattr(os, "access", lambda path, mode: os.path.basename(path) not in refused)
    with pytest.raises(CannotRun, match="a: cannot be written .write-protected"):
        replace_file("a", b"new")
    refused.clear()
    refused.add(os.path.basename(os.getcwd()))
    with pytest.raises(CannotRun, match="its folder is write-protected"):
        replace_file("a", b"new")
    assert Path("a").read_bytes() == b"old" and sorted(os.listdir()) == ["a", "folder", "pipe"]


def test_a_file_that_vanishes_before_it_is_fixed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.cu").write_text(RACE, encoding="utf-8")
    fix = autofix.fix

    def slow(*arguments: object) -> object:
        result = fix(*arguments)  # type: ignore[arg-type]
        Path("a.cu").unlink()
        return result

    monkeypatch.setattr(autofix, "fix", slow)
    assert dispatch.main(["check", "a.cu", "--fix"]) == 2
    assert capsys.readouterr().err == (
        "stitchcuda: a.cu: cannot be read any more (No such file or directory); no fix was written, run again\n"
    )


@pytest.mark.parametrize(
    ("port", "message"),
    [("99999", "a port is between 0 and 65535, not 99999"), ("-1", "a port is between"), ("x", "invalid port value")],
)
def test_bad_ports(port: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch.main(["lsp", f"--tcp={port}"]) == 2
    assert message in capsys.readouterr().err


def test_a_file_named_twice_is_checked_once() -> None:
    Path("a.cu").write_text(RACE, encoding="utf-8")
    once = json.loads(run("check", "a.cu", "--format", "json").stdout)["findings"]
    assert once and json.loads(run("check", "a.cu", "./", "--format", "json").stdout)["findings"] == once
