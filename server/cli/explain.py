"""`stitchcuda explain CODE`: prints the documentation of a finding."""

from __future__ import annotations

import argparse
import difflib

from stitchcuda.analysis.rules import ALL_CODES, documentation
from stitchcuda.server.cli.errors import CannotRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", metavar="CODE", help="a finding's code; without one, all codes are listed")


def run(arguments: argparse.Namespace) -> int:
    if arguments.code is None:
        width = max((len(rule.code) for rule in ALL_CODES.values()), default=0)
        print("\n".join(f"{rule.code:<{width}}  {rule.summary}" for rule in ALL_CODES.values()))
        return 0
    code = arguments.code.strip().lower()
    if code not in ALL_CODES:
        near = [known for known in ALL_CODES if code and code in known][:3] or difflib.get_close_matches(
            code, ALL_CODES, 3, 0.5
        )
        hint = f"did you mean {' or '.join(near)}?" if near else "stitchcuda explain lists all codes"
        raise CannotRun(f"no finding has the code {arguments.code!r}; {hint}")
    print(documentation(code), end="")
    return 0
