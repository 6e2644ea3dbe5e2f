"""Comments of C++ as plain text, beside the literals that may hold what looks like one."""

from __future__ import annotations

import re

# A quote behind a hexadecimal digit stands between digits (1'000), but for that of a prefix or keyword.
_PATTERN = (
    r'"(?:[^"\\\n]|\\.)*"'
    r"|(?:(?<![0-9A-Fa-f])|(?<=\bu8)|(?<=\bcase))'(?:[^'\\\n]|\\.)*'"
    r"|//[^\n]*|/\*.*?\*/"
    r'|\b(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"'
)
COMMENT_OR_LITERAL = re.compile(_PATTERN, re.DOTALL)
COMMENT_OR_LITERAL_BYTES = re.compile(_PATTERN.encode(), re.DOTALL)


def without_comments(text: str) -> str:
    """A blank for each comment."""
    return COMMENT_OR_LITERAL.sub(lambda m: " " if m[0].startswith("/") else m[0], text)


def bytes_without_comments(text: bytes) -> bytes:
    """A blank for each comment."""
    return COMMENT_OR_LITERAL_BYTES.sub(lambda m: b" " if m[0].startswith(b"/") else m[0], text)
