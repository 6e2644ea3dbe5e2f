"""Patterns of files: `*` and `?` stay inside a folder, `**` spans folders, a pattern that names a folder means all below it."""

from __future__ import annotations

import re
from functools import cache


def matches(pattern: str, path: str) -> bool:
    """Whether a relative path with `/` is meant. A pattern without `/` inside is looked for in every folder."""
    return _expression(pattern).fullmatch(path) is not None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    text = pattern.replace("\\", "/").removeprefix("./").rstrip("/")
    if "/" not in text:
        text = f"**/{text}"
    out = []
    for part in re.split(r"(\*\*/|/\*\*$|^\*\*$|\*|\?)", text):
        out.append(_SIGNS.get(part) or re.escape(part))
    return re.compile("".join(out) + "(?:/.*)?", re.DOTALL)


_SIGNS = {"**/": "(?:.*/)?", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
