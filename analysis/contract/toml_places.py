"""Where the tables, keys and values of a TOML text stand. The library that reads TOML tells no places.

It follows texts that are being typed: what it does not understand it skips, a line at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_KEY = re.compile(r"""[ \t]*(?:"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|([A-Za-z0-9_-]+))[ \t]*""")
_STRINGS = ('"""', "'''", '"', "'")
_AT = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True)
class Statement:
    """A table's head (`value` None) or a key with its value. Spans count characters of the text."""

    path: tuple[str, ...]  # from the top: ("run", "timeout")
    key: tuple[int, int]
    value: tuple[int, int] | None = None


def statements(text: str) -> tuple[Statement, ...]:
    """In the order of the text."""
    found: list[Statement] = []
    table: tuple[str, ...] = ()
    at = 0
    while at < len(text):
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n"))
        if at >= len(text):
            break
        if text[at] == "[":
            begin = at + (2 if text.startswith("[[", at) else 1)
            names, end = _dotted(text, begin)
            table = names
            begin += len(text[begin:end]) - len(text[begin:end].lstrip())
            found.append(Statement(names, (begin, begin + len(text[begin:end].rstrip()))))
            at = _line_end(text, end)
            continue
        names, end = _dotted(text, at)
        if names and text.startswith("=", end):
            begin = end + 1 + len(text[end + 1 :]) - len(text[end + 1 :].lstrip(" \t"))
            stop = value_end(text, begin)
            found.append(Statement((*table, *names), (at, at + len(text[at:end].rstrip())), (begin, stop)))
            at = stop
        at = _line_end(text, at)
    return tuple(found)


def place_of(text: str, key: str, known: Sequence[Statement] | None = None) -> tuple[int, int]:
    """Where a mistake about a dotted key is shown: the value of the key, the key itself when it is unknown there, else the nearest
    table around it; the start of the text when there is none."""
    path = tuple(key.split(".")) if key else ()
    for length in range(len(path), 0, -1):
        for statement in known if known is not None else statements(text):
            if statement.path == path[:length]:
                return statement.value if statement.value is not None and length == len(path) else statement.key
    return 0, _line_end(text, 0)


def place_of_error(text: str, message: str) -> tuple[int, int]:
    """The rest of the line from the place that the TOML reader names in its message; the last line when it names the end."""
    at = _AT.search(message)
    lines = text.rstrip().split("\n")
    line, column = (int(at[1]) - 1, int(at[2]) - 1) if at is not None else (len(lines) - 1, 0)
    line = min(line, len(lines) - 1)
    start = sum(len(before) + 1 for before in lines[:line])
    end = start + len(lines[line].rstrip("\r"))
    first = min(start + column, end)
    return (first, end) if first < end else (start + len(lines[line]) - len(lines[line].lstrip()), end)


def _dotted(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """The names of a dotted key, and where it ends with the blanks after it."""
    names: list[str] = []
    while (match := _KEY.match(text, at)) is not None:
        names.append(next(group for group in match.groups() if group is not None))
        at = match.end()
        if not text.startswith(".", at):
            break
        at += 1
    return tuple(names), at


def value_end(text: str, at: int) -> int:
    """Where the value that begins at `at` ends: before a line end or a comment outside of strings and brackets."""
    depth, last = 0, at
    while at < len(text):
        quote = next((q for q in _STRINGS if text.startswith(q, at)), None)
        if quote is not None:
            at = last = _string_end(text, at, quote)
            continue
        char = text[at]
        if char == "#":
            if depth == 0:
                break
            at = _line_end(text, at)
            continue
        if char == "\n" and depth <= 0:
            break
        depth += (char in "[{") - (char in "]}")
        at += 1
        if not char.isspace():
            last = at
    return last


def _string_end(text: str, at: int, quote: str) -> int:
    begin = at
    at += len(quote)
    while at < len(text):
        if text[at] == "\\" and quote[0] == '"':
            at += 2
        elif text.startswith(quote, at):
            return at + len(quote)
        elif text[at] == "\n" and len(quote) == 1:
            return at  # not closed
        else:
            at += 1
    return max(begin + 1, min(at, len(text)))


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
