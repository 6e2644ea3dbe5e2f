"""Comments that silence a finding: `// stitchcuda: ignore[code, code] reason`, in Python `# stitchcuda: ignore[code]`.

A comment counts for its own line and, when it stands alone, for the next line of code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(rb"(?://|#|/\*)[^\n]*?\bstitchcuda:\s*ignore\[([^\]\n]*)\]([^\n]*)")
_ALONE = re.compile(rb"^\s*(?://|#|/\*(?:[^*]|\*(?!/))*(?:\*/\s*)?$)")  # a comment and nothing else


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment. Lines are zero-based; `covers` are the lines whose findings it silences."""

    line: int
    codes: tuple[str, ...]
    reason: str
    covers: frozenset[int]


def suppressions(text: bytes) -> tuple[Suppression, ...]:
    if b"stitchcuda:" not in text:
        return ()
    lines = re.split(rb"\r\n|\n|\r", text)
    found = []
    for number, line in enumerate(lines):
        match = _COMMENT.search(line)
        if match is None:
            continue
        codes = tuple(c.strip() for c in match[1].decode(errors="replace").split(",") if c.strip())
        reason = match[2].partition(b"*/")[0].decode(errors="replace").strip()
        covers = {number}
        if _ALONE.match(line):
            covers.add(_next_code(lines, number + 1))
        found.append(Suppression(number, codes, reason, frozenset(covers)))
    return tuple(found)


def suppressed(known: tuple[Suppression, ...], code: str, line: int) -> bool:
    return any(line in s.covers and code in s.codes for s in known)


def _next_code(lines: list[bytes], start: int) -> int:
    for number in range(start, len(lines)):
        if not _ALONE.match(lines[number]):
            return number
    return start
