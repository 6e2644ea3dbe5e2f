"""Macro expansion as text: finding arguments, substituting them, and where each byte of the result comes from."""

from __future__ import annotations

import re

from stitchcuda.analysis.program.cuda.context import EXPANSION_BUDGET, Context, Segment
from stitchcuda.analysis.program.cuda.macro_bodies import MacroDef
from tree_sitter import Node

_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?\*/|[()\[\]{},]', re.DOTALL)


def split_arguments(text: bytes, given: Node) -> list[tuple[int, int]]:
    """Byte ranges of the arguments between the parentheses of an argument list."""
    return split_range(text, given.start_byte + 1, given.end_byte - 1)


def split_range(text: bytes, start: int, end: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    depth = 0
    position = start
    for token in _TOKEN.finditer(text, start, max(start, end)):
        first = text[token.start()]
        if first in (40, 91, 123):
            depth += 1
        elif first in (41, 93, 125):
            depth -= 1
        elif first == 44 and depth == 0:
            found.append((position, token.start()))
            position = token.end()
    if text[position:end].strip() or found:
        found.append((position, end))
    return found


_WORD = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|\s*##\s*|#\s*[A-Za-z_]\w*|[A-Za-z_]\w*')


def substitute(macro: MacroDef, text: bytes, pieces: list[tuple[int, int]]) -> tuple[str, list[Segment]]:
    """The macro's text with arguments put in, and where the arguments ended up (in bytes of the result)."""
    names = macro.params or ()
    values: dict[str, tuple[int, int]] = {}
    fixed = len(names) - (1 if macro.variadic else 0)
    for name, piece in zip(names[:fixed], pieces, strict=False):
        values[name] = piece
    if macro.variadic:
        rest = pieces[fixed:]
        values[names[-1]] = (rest[0][0], rest[-1][1]) if rest else (0, 0)
    out: list[bytes] = []
    size = 0
    segments: list[Segment] = []
    position = 0
    body = macro.body
    for match in _WORD.finditer(body):
        word = match.group(0)
        replacement: bytes | None = None
        segment: tuple[int, int] | None = None
        if word.strip() == "##":
            replacement = b""
        elif word[0] == "#":
            inside = values.get(word[1:].strip())
            if inside is not None:
                quoted = text[inside[0] : inside[1]].strip().replace(b"\\", b"\\\\").replace(b'"', b'\\"')
                replacement = b'"' + quoted.replace(b"\n", b" ") + b'"'
        elif word in values:
            segment = values[word]
            replacement = text[segment[0] : segment[1]]
        elif word in names:
            replacement = b""
        if replacement is None:
            continue
        before = body[position : match.start()].encode()
        if segment is not None and segment == (0, 0) and before.rstrip().endswith(b","):
            before = before.rstrip()[:-1]  # `, ##__VA_ARGS__` without arguments
        out.append(before)
        size += len(before)
        if segment is not None:
            stripped = replacement.lstrip()
            origin = segment[0] + len(replacement) - len(stripped)
            stripped = stripped.rstrip()
            segments.append(Segment(size, size + len(stripped), origin, origin + len(stripped)))
            replacement = stripped
        out.append(replacement)
        size += len(replacement)
        position = match.end()
    out.append(body[position:].encode())
    return b"".join(out).decode("utf-8", "replace"), segments


def expand_text(cx: Context, start: int, end: int) -> tuple[bytes, tuple[Segment, ...]] | None:
    """A stretch of text with every invocation of a known function-like macro replaced by its expansion: for text that
    does not parse as it stands. None when there is nothing to replace."""
    out: list[bytes] = []
    segments: list[Segment] = []
    size = 0
    position = start

    def add(piece: bytes, origin: int, origin_end: int, exact: bool) -> None:
        nonlocal size
        if piece:
            segments.append(Segment(size, size + len(piece), origin, origin_end, exact))
            out.append(piece)
            size += len(piece)

    for match in _INVOCATION.finditer(cx.text, start, end):
        if match.group(1) is None or match.start() < position:
            continue
        macro = cx.env.macros.get(match.group(1).decode())
        if macro is None or macro.params is None:
            continue
        closing = closing_parenthesis(cx.text, match.end() - 1, end)
        if closing < 0:
            continue
        add(cx.text[position : match.start()], position, match.start(), True)
        text, inner = substitute(macro, cx.text, split_range(cx.text, match.end(), closing))
        expanded = text.encode()
        done = 0
        for segment in inner:
            add(expanded[done : segment.start], match.start(), closing + 1, False)
            add(expanded[segment.start : segment.end], segment.origin, segment.origin_end, True)
            done = segment.end
        add(expanded[done:], match.start(), closing + 1, False)
        position = closing + 1
        if size > EXPANSION_BUDGET:
            return None
    if not out:
        return None
    add(cx.text[position:end], position, end, True)
    return b"".join(out), tuple(segments)


_INVOCATION = re.compile(
    rb'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*|\b([A-Za-z_]\w*)\s*\(',
    re.DOTALL | re.MULTILINE,
)


def closing_parenthesis(text: bytes, opening: int, end: int) -> int:
    """Offset of the parenthesis that closes the one at `opening`, or -1."""
    depth = 0
    for token in _TOKEN.finditer(text, opening, end):
        first = text[token.start()]
        if first == 40:
            depth += 1
        elif first == 41:
            depth -= 1
            if depth == 0:
                return token.start()
    return -1
