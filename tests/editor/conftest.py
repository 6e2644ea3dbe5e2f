"""One VS Code for all tests that drive it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editor.vscode import code_server
from tests.editor.vscode.code_server import CodeServer

EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"


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
def vscode(extension: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeServer]:
    with code_server.code_server(tmp_path_factory.mktemp("vscode"), extension) as running:
        yield running
