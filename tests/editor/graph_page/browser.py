"""A Chromium that looks at one page of the execution graph, and the pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.editor import chromium
from tests.editor.chromium import Chromium

HERE = Path(__file__).parent
PLAYWRIGHT = chromium.INSTALLED / "node_modules" / "playwright-core"


def missing() -> str:
    """Why no browser can be driven here; "" when it can."""
    if not PLAYWRIGHT.is_dir():
        return f"no playwright-core in {PLAYWRIGHT.parent}; tests/editor/vscode/install.sh puts it there"
    return chromium.missing()


class Browser(Chromium):
    """`do` what browser.mjs offers; the rest is what tests ask for again and again."""

    def __init__(self) -> None:
        super().__init__(HERE / "browser.mjs", "graph_page.mjs")

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


@contextmanager
def browser() -> Iterator[Browser]:
    running = Browser()
    try:
        yield running
    finally:
        running.close()
