"""A real VS Code with the packaged extension and the real server."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editor.vscode import code_server
from tests.editor.vscode.code_server import CodeServer, Window
from tests.server.test_session import RACE

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors" / "vscode"

pytestmark = pytest.mark.editor


@pytest.fixture(scope="session")
def extension() -> Path:
    """The extension as it is packaged for users."""
    if reason := code_server.missing():
        pytest.skip(reason)
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm")
    if not (EXTENSION / "node_modules").is_dir():
        pytest.skip("editors/vscode/node_modules is missing; npm ci in that folder makes it")
    vsix = EXTENSION / "stitchcuda.vsix"
    inputs = [*EXTENSION.glob("*.*"), *(EXTENSION / "src").iterdir(), *(EXTENSION / "media").iterdir()]
    if vsix.exists() and all(path.stat().st_mtime <= vsix.stat().st_mtime for path in inputs):
        return vsix
    built = subprocess.run(
        [npm, "run", "--silent", "package"], check=False, cwd=EXTENSION, capture_output=True, text=True, timeout=300
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return vsix


@pytest.fixture(scope="session")
def editor(extension: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeServer]:
    with code_server.code_server(tmp_path_factory.mktemp("vscode"), extension) as running:
        yield running


@pytest.fixture(scope="session")
def window(editor: CodeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """The window that most tests share, on a folder in which each makes its own."""
    command = Path(sys.executable).with_name("stitchcuda")
    with editor.window(tmp_path_factory.mktemp("work"), **{"stitchcuda.server.path": str(command)}) as opened:
        yield opened


def test_a1_each_finding_is_shown_once(window: Window) -> None:
    file = window.folder / "race.cu"
    file.write_text(RACE, encoding="utf-8")
    seen = window.run("findings", file=str(file))
    assert seen["opened"]["code"] == "stream-race-raw"
    assert seen["text"] == "consume<<<4, 256, 0, b>>>(x, y, n)"
