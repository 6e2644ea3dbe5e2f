"""`stitchcuda explain CODE`: prints the documentation of a finding."""

from __future__ import annotations

import argparse
import difflib

from stitchcuda.server.cli import shipped
from stitchcuda.server.cli.errors import CannotRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", metavar="CODE", help="a finding's code; without one, all codes are listed")


def run(arguments: argparse.Namespace) -> int:
    pages = {page.stem: page for page in sorted((shipped.folder("docs") / "rules").glob("*.md"))}
    if arguments.code is None:
        print("\n".join(pages))
        return 0
    code = arguments.code.strip().lower()
    if code not in pages:
        near = difflib.get_close_matches(code, pages, 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "stitchcuda explain lists all codes"
        raise CannotRun(f"no finding has the code {arguments.code!r}; {hint}")
    print(pages[code].read_text(encoding="utf-8").rstrip())
    return 0
