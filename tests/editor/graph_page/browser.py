"""A Chromium that looks at one page of the execution graph, and the pages."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.editor.vscode import code_server

HERE = Path(__file__).parent
PLAYWRIGHT = code_server.INSTALLED / "node_modules" / "playwright-core"


def missing() -> str:
    """Why no browser can be driven here; "" when it can."""
    if not PLAYWRIGHT.is_dir():
        return f"no playwright-core in {PLAYWRIGHT.parent}; tests/editor/vscode/install.sh puts it there"
    return "" if _chromium() else "no chromium"


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """`do` what browser.mjs offers; the rest is what tests ask for again and again."""

    def __init__(self) -> None:
        chromium = _chromium()
        assert chromium is not None
        # Node resolves imports from the script's folder, so the script has to lie beside node_modules.
        script = shutil.copy(HERE / "browser.mjs", code_server.INSTALLED / "graph_page.mjs")
        command = [str(code_server.INSTALLED / "node"), script, chromium]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def do(self, does: str, **what: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"does": does, **what}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"error": "the browser is gone"}')
        if "error" in answer:
            raise AssertionError(f"{does} {what}: {answer['error']}")
        return answer["value"]

    def open(self, page: Path, **how: Any) -> int:
        """Milliseconds until it was drawn. Nothing may be said on the console on the way."""
        took: int = self.do("open", url=page.as_uri(), **how)
        assert self.do("said") == []
        return took

    def js(self, expression: str) -> Any:
        return self.do("evaluate", expression=expression)

    def text(self, selector: str) -> str:
        found: str = self.js(f"document.querySelector({selector!r}).innerText")
        return found

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.js(f"[...document.querySelectorAll({selector!r})].map((e) => e.textContent)")
        return found

    def box(self, selector: str) -> dict[str, float]:
        found: dict[str, float] = self.js(
            f"(({{x, y, width, height}}) => ({{x, y, width, height}}))(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        return found

    def point_at(self, selector: str, times: int = 1) -> None:
        box = self.box(selector)
        self.do("pointer", x=box["x"] + box["width"] / 2, y=box["y"] + box["height"] / 2, times=times)

    def picture(self, name: str) -> None:
        """For people."""
        file = HERE / "screenshots" / f"{name}.png"
        file.parent.mkdir(exist_ok=True)
        self.do("picture", file=str(file))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()


@contextmanager
def browser() -> Iterator[Browser]:
    running = Browser()
    try:
        yield running
    finally:
        running.close()
