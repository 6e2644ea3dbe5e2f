"""How a real VS Code starts the server: trust, a crash, installation."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stitchcuda.server.lifetime import is_alive

from tests.editor.vscode.code_server import CodeServer, Window
from tests.editor.vscode.serving import Serving
from tests.server import small_program
from tests.server.test_session import RACE

TOAST = ".notification-toast"
STATUS = '[id$="stitchcuda.status"]'
WALKTHROUGH = ["stitchcuda.stitchcuda#start"]
STEP = ".gettingStartedContainer button.getting-started-step"
MODAL = ".monaco-dialog-box .monaco-button"

pytestmark = pytest.mark.editor


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path)


@pytest.fixture
def window(vscode: CodeServer, serving: Serving, tmp_path: Path) -> Iterator[Window]:
    folder = tmp_path / "crashing"
    folder.mkdir()
    with vscode.window(folder, **{"stitchcuda.server.path": str(serving.command)}) as opened:
        yield opened


def test_a_server_that_is_killed_is_started_again_and_what_was_lost_is_said(window: Window, serving: Serving) -> None:
    program = small_program.write(window.folder)
    race = window.folder / "race.cu"
    race.write_text(RACE, encoding="utf-8")
    main = program / "main.cu"
    window.run("show", file=str(main))
    window.run("codes", file=str(race), codes=["stream-race-raw"])
    with serving.held():
        window.run("job", command="stitchcuda.stitch", given=[main.as_uri()], wait=False)
        window.do("wait", selector=f"{TOAST} .monaco-button", text="Cancel")
        (first,) = serving.pids
        os.kill(first, signal.SIGKILL)
        window.do("wait", selector=TOAST, text="ended unexpectedly and was started again")
        window.do("gone", selector=f"{TOAST} .monaco-button", text="Cancel")
        window.picture("crashed")
        assert "Not finished: Stitch end-to-end: program" in window.do("text", selector=TOAST, text="unexpectedly")
    window.run("codes", file=str(race), codes=["stream-race-raw"])
    assert len(serving.pids) == 2 and not is_alive(first)
    assert window.run("job", command="stitchcuda.stitch", given=[main.as_uri()])["state"] == "done"


def test_a_server_that_cannot_be_started_again_is_said_to_be_not_running(window: Window, serving: Serving) -> None:
    race = window.folder / "race.cu"
    race.write_text(RACE, encoding="utf-8")
    window.run("codes", file=str(race), codes=["stream-race-raw"])
    away = serving.command.with_name("away")
    serving.command.rename(away)  # as while it is being updated
    os.kill(serving.pids[0], signal.SIGKILL)
    window.do("wait", selector=STATUS, text="not running")
    away.rename(serving.command)
    window.run("command", command="stitchcuda.restart")
    window.do("gone", selector=STATUS, text="not running")
    window.run("codes", file=str(race), codes=["stream-race-raw"])


def test_a_command_that_cannot_be_looked_at_is_not_there(vscode: CodeServer, serving: Serving, tmp_path: Path) -> None:
    """As one on a share that has gone, or in a folder of somebody else; the next try is one all the same."""
    folder = tmp_path / "looping"
    folder.mkdir()
    race = folder / "race.cu"
    race.write_text(RACE, encoding="utf-8")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with vscode.window(folder, **{"stitchcuda.server.path": str(loop)}) as window:
        window.run("show", file=str(race))
        window.do("wait", selector=STATUS, text="not installed")
        loop.unlink()
        loop.symlink_to(serving.command)
        window.run("command", command="stitchcuda.restart")
        window.run("codes", file=str(race), codes=["stream-race-raw"])


def test_a25_an_untrusted_workspace_starts_nothing_of_its_own_until_it_is_trusted(
    vscode: CodeServer, serving: Serving, tmp_path: Path
) -> None:
    program = small_program.write(tmp_path)
    own = Serving(program)  # what the workspace brings
    (program / ".venv" / "bin").mkdir(parents=True)
    os.rename(own.command, program / ".venv" / "bin" / "stitchcuda")
    (program / ".vscode").mkdir()
    (program / ".vscode" / "settings.json").write_text('{"stitchcuda.server.path": ".venv/bin/stitchcuda"}')
    settings = {
        "security.workspace.trust.enabled": True,
        "security.workspace.trust.startupPrompt": "never",
        "stitchcuda.server.path": str(serving.command),
    }
    with vscode.window(program, **settings) as window:
        window.run("show", file=str(program / "main.cu"))
        window.do("wait", selector=STATUS, text="not trusted")
        window.picture("untrusted")
        status = window.run("command", command="stitchcuda.status")
        assert status["trusted"] is False and "not trusted" in status["unavailable"]["validate"]
        assert len(serving.pids) == 1 and not own.pids
        window.run("command", command="workbench.trust.manage")
        window.do("click", selector=".workspace-trust-editor .monaco-button", text="Trust")
        window.do("gone", selector=STATUS, text="not trusted")
        window.run("show", file=str(program / "main.cu"))
        assert window.run("trusted_status")["trusted"] is True
        assert len(own.pids) == 1, "now the server of the workspace is the one"
        assert not is_alive(serving.pids[0])


def test_the_server_is_installed_from_the_extension_after_agreement(vscode: CodeServer, tmp_path: Path) -> None:
    folder = tmp_path / "installing"
    folder.mkdir()
    race = folder / "race.cu"
    race.write_text(RACE, encoding="utf-8")
    python = Path(sys.executable).resolve()
    settings = {"stitchcuda.server.path": "stitchcuda", "stitchcuda.server.python": str(python)}
    if shutil.which("stitchcuda") is not None:
        pytest.skip("a stitchcuda on PATH would be started")
    with vscode.window(folder, **settings) as window:
        window.run("show", file=str(race))
        window.do("wait", selector=STATUS, text="not installed")
        window.do("wait", selector=TOAST, text="the language server is not installed")
        window.picture("not-installed")
        window.run("command", command="workbench.action.openWalkthrough", given=WALKTHROUGH)
        window.do("wait", selector=f"{STEP}[aria-checked=false]", text="Install the language server")
        window.picture("walkthrough-first")
        window.do("wait", selector=STATUS, text="not installed")
        for answer in ("Cancel", "Install"):
            window.run("command", command="stitchcuda.installServer", wait=False)
            window.do("wait", selector=".quick-input-list .monaco-list-row", text="comes with the extension")
            window.do("press", keys="Enter")
            window.do("wait", selector=MODAL, text="Install")
            assert not list((vscode.folder / "data").glob("**/globalStorage/*stitchcuda*/server"))
            window.picture("agreement")
            window.do("click", selector=MODAL, text=answer)
            window.do("gone", selector=MODAL)
            if answer == "Cancel":
                window.do("wait", selector=STATUS, text="not installed")
        window.do("wait", selector=TOAST, text="the server", seconds=300)
        if "was not installed" in window.do("text", selector=TOAST, text="the server"):
            pytest.skip("no package index")
        window.do("wait", selector=TOAST, text="the server is installed")
        window.run("codes", file=str(race), codes=["stream-race-raw"])
        window.picture("installed")
        window.run("command", command="workbench.action.openWalkthrough", given=WALKTHROUGH)
        window.do("wait", selector=f"{STEP}[aria-checked=true]", text="The language server runs")
