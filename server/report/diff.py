"""Unified diffs that `git apply` and `patch -p1` take."""

from __future__ import annotations

import difflib
from collections.abc import Mapping


def unified(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """The files of `after` against `before`, where a new file is missing. Bytes that are no UTF-8 are lone surrogates."""
    return "".join(_file(path, before.get(path), text) for path, text in sorted(after.items()))


def _file(path: str, before: bytes | None, after: bytes) -> str:
    if before == after:
        return ""
    name = path.replace("\\", "/").lstrip("/")
    old, new = _lines(before or b""), _lines(after)
    source = f"a/{name}" if before is not None else "/dev/null"
    out = []
    for line in difflib.unified_diff(old, new, source, f"b/{name}"):
        # `patch` reads the end of a line without one from the mark below it
        out.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(out)


def _lines(text: bytes) -> list[str]:
    """Lines with their ends; for `patch` only a line feed ends a line."""
    parts = text.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
    return [line.decode(errors="surrogateescape") for line in lines]
