"""Verdicts on CuSan's runtime tests (github.com/tudasc/cusan), those without MPI.

    python benchmarks/cusan.py CHECKOUT

Each file is a program whose synchronisation stands behind `#ifdef CUSAN_SYNC`; its CHECK lines say whether CuSan reports a data race with
it and without it. Both ways are checked as CUDA. A verdict is right when there is a correctness finding exactly where CuSan reports a
race; a file that cannot be parsed counts as wrong both ways.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from stitchcuda.analysis.index import Index
from stitchcuda.server.report.rows import Row, rows

_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|else|elif|endif)\b(.*)$")


def chosen(text: str, defined: bool) -> str:
    """The text with CUSAN_SYNC defined or not; lines stay where they are."""
    stack: list[bool | None] = []  # None: another condition
    out = []
    for line in text.splitlines():
        match = _CONDITION.match(line)
        ours = False
        if match:
            word, rest = match[1], match[2]
            if word in ("if", "ifdef", "ifndef"):
                about = re.search(r"\bCUSAN_SYNC\b", rest) is not None
                stack.append((defined != (word == "ifndef" or "!" in rest)) if about else None)
                ours = about
            elif word == "else" and stack and stack[-1] is not None:
                stack[-1], ours = not stack[-1], True
            elif word == "endif" and stack:
                ours = stack.pop() is not None
        out.append("" if ours or False in stack else line)
    return "\n".join(out) + "\n"


def findings(name: str, text: str) -> list[Row] | None:
    """Shown correctness findings; None when the file could not be understood."""
    index = Index()
    index.put(name, text.encode())
    analysis = index.analyse()
    if analysis.problems or not analysis.timelines:
        return None
    return [r for r in rows(analysis) if r.group == "correctness" and r.confidence != "possible"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    folder = parser.parse_args().checkout / "test" / "runtime"
    right = verdicts = 0
    for path in sorted(folder.glob("*.c")):
        text = path.read_text(encoding="utf-8")
        if "mpi" in text.lower():
            continue
        for defined in (False, True):
            expected = "CHECK-DAG: data race" in text and not (defined and "CUSAN_SYNC" in text)
            found = findings(path.stem + ".cu", chosen(text, defined))
            good = found is not None and bool(found) == expected
            verdicts += 1
            right += good
            what = "not parsed" if found is None else ", ".join(f"{r.code}:{r.place.line}" for r in found) or "silent"
            print(f"{'ok   ' if good else 'WRONG'} {path.name:<62} {'sync' if defined else '    '} {what}")
    print(f"{right} of {verdicts} verdicts right ({100 * right / max(1, verdicts):.1f} %)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
