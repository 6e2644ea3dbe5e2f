"""A Chromium that Playwright drives: a script for Node that reads one JSON object a line and answers each with one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

# Where tests/editor/vscode/install.sh puts VS Code, Playwright, and a Node for both.
INSTALLED = Path(os.environ.get("STITCHCUDA_VSCODE") or Path(__file__).parents[2] / ".vscode-test")


def missing() -> str:
    """Why there is no Chromium; "" when there is one."""
    return "" if _path() else "no chromium"


def _path() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """`do("click", selector=...)`: what there is to do stands in the script."""

    def __init__(self, script: Path, installed_as: str) -> None:
        chromium = _path()
        assert chromium is not None
        # Node resolves imports from the script's folder, so the script has to lie beside node_modules.
        beside = shutil.copy(script, INSTALLED / installed_as)
        self._process = subprocess.Popen(
            [INSTALLED / "node", beside, chromium], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, does: str, **what: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"does": does, **what}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"error": "the browser is gone"}')
        if "error" in answer:
            raise AssertionError(f"{does} {what}: {answer['error']}")
        return answer["value"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
