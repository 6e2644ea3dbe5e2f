"""Directives in plain text, found at memory speed: few lines of a long file hold one."""

from __future__ import annotations

import re
from collections.abc import Iterator


def directives(pattern: re.Pattern[bytes], word: bytes, text: bytes) -> Iterator[re.Match[bytes]]:
    """What `pattern.finditer(text)` gives, for a pattern that begins with `^` (MULTILINE) and whose matches hold `word` in their first
    line: lines without it are not looked at."""
    end = 0
    at = text.find(word)
    while at >= 0:
        start = text.rfind(b"\n", 0, at) + 1
        match = pattern.match(text, start) if start >= end else None
        if match is not None:
            yield match
            end = match.end()
        line_end = text.find(b"\n", at)
        at = text.find(word, max(line_end, end)) if line_end >= 0 else -1
