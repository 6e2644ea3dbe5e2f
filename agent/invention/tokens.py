"""C++ and CUDA text as the preprocessor sees it: comments gone, lines that end in a backslash joined, directives marked.

What hides code from a reader who is no compiler is a token of its own kind, "odd": digraphs, trigraphs, universal character names, and
characters beyond ASCII outside of comments and strings.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_SPLICE = re.compile(rb"\\[ \t\f\v]*(?:\r\n|\n|\r)")
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\f\v]+)
  | (?P<newline>\r\n|\n|\r)
  | (?P<comment>//[^\n\r]*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|u|U|L)?R"(?P<delimiter>[^()\\\s"]{0,16})\(.*?\)(?P=delimiter)")
  | (?P<string>(?:u8|u|U|L)?"(?:[^"\\\n\r]|\\.)*"?)
  | (?P<char>(?:u8|u|U|L)?'(?:[^'\\\n\r]|\\.)*'?)
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'?[A-Za-z0-9_]|\.)*)
  | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
  | (?P<odd>\?\?[=/'()!<>-]|%:%:|%:|<%|%>|<:(?!:[^:>])|:>|[^\x20-\x7e]|[\\@`])
  | (?P<punct>\#\#|\#|::|->\*?|\.\.\.|<<<|>>>|<<=|>>=|<=>|<<|[-+*/%&|^=!<>]=|\+\+|--|&&|\|\||[!-/:-?\[\]^{-~])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`start` and `end` are bytes of the text, `line` counts from 1. `directive` is the preprocessor directive that it stands in
    ("define", ...), `headline` the number of that directive in the file; kinds: word number string char punct odd header."""

    kind: str
    text: str
    start: int
    end: int
    line: int
    directive: str = ""
    headline: int = -1


@lru_cache(maxsize=64)
def tokens(text: bytes) -> tuple[Token, ...]:
    """All tokens but comments. Never raises: what is no token is odd."""
    return tuple(_tokens(text))


def between(text: bytes, start: int, end: int) -> tuple[Token, ...]:
    """The tokens that begin in a range of bytes."""
    starts = _starts(text)
    return tokens(text)[bisect_left(starts, start) : bisect_left(starts, end)]


@lru_cache(maxsize=64)
def _starts(text: bytes) -> list[int]:
    return [token.start for token in tokens(text)]


def _tokens(text: bytes) -> Iterator[Token]:
    joined, cuts, lengths = _joined(text)
    flat = joined.decode("latin-1")
    starts = [0, *(m.end() for m in re.finditer(rb"\r\n|\n|\r", text))]

    def original(at: int) -> int:
        return at + lengths[bisect_right(cuts, at)] if cuts else at

    at, fresh, directive, headline = 3 if text.startswith(b"\xef\xbb\xbf") else 0, True, "", -1
    expect_name = False
    while at < len(flat):
        if directive in ("include", "include_next", "import", "embed") and not expect_name and flat[at] == "<":
            end = flat.find(">", at)
            stop = len(flat) if (line_end := re.compile(r"[\r\n]").search(flat, at)) is None else line_end.start()
            if at < end < stop:
                begin = original(at)
                yield Token(
                    "header",
                    flat[at : end + 1],
                    begin,
                    original(end) + 1,
                    bisect_right(starts, begin),
                    directive,
                    headline,
                )
                at = end + 1
                continue
        match = _TOKEN.match(flat, at)
        if match is None:
            kind, found = "odd", flat[at]
        else:
            kind, found = match.lastgroup or "odd", match[0]
            kind = "raw" if kind == "delimiter" else kind
        begin = original(at)
        after = at + len(found)
        at = after
        if kind in ("space", "comment"):
            continue
        if kind == "newline":
            fresh, directive, expect_name = True, "", False
            continue
        hash_ = found in ("#", "%:") and fresh
        if hash_:
            directive, expect_name, headline = "#", True, headline + 1
        elif expect_name:
            directive, expect_name = (found if kind == "word" else "#"), False
        fresh = False
        kind = "string" if kind == "raw" else kind
        end = original(after - 1) + 1
        yield Token(kind, found, begin, end, bisect_right(starts, begin), directive, headline if directive else -1)


def _joined(text: bytes) -> tuple[bytes, list[int], list[int]]:
    """The text without line ends behind backslashes; where they were, and how much was taken out before each place."""
    cuts: list[int] = []
    lengths = [0]
    parts = []
    at = 0
    for match in _SPLICE.finditer(text):
        parts.append(text[at : match.start()])
        at = match.end()
        cuts.append(match.start() - lengths[-1])
        lengths.append(lengths[-1] + match.end() - match.start())
    parts.append(text[at:])
    return b"".join(parts), cuts, lengths


def balanced(found: tuple[Token, ...] | list[Token], opening: int, most: int = 4_000) -> int:
    """The index after the bracket that closes the one at `opening`; the end, or `most` tokens further, where none does."""
    depth = 0
    stop = min(len(found), opening + most)
    for k in range(opening, stop):
        if found[k].kind != "punct":
            continue
        if found[k].text in "([{":
            depth += 1
        elif found[k].text in ")]}":
            depth -= 1
            if depth == 0:
                return k + 1
    return stop


def literal(token: Token) -> str:
    """What a string or raw string says; escapes that make characters are resolved as far as they are plain."""
    text = token.text.lstrip("uUL8")
    if text.startswith("R"):
        text = text[1:].strip('"')
        return text[text.find("(") + 1 : text.rfind(")")]
    body = text[1:].removesuffix('"')
    return re.sub(
        r"\\(?:x([0-9a-fA-F]{1,4})|([0-7]{1,3})|u([0-9a-fA-F]{4})|(.))",
        lambda m: chr(int(m[1] or m[3], 16)) if m[1] or m[3] else chr(int(m[2], 8)) if m[2] else _plain(m[4]),
        body,
        flags=re.DOTALL,
    )


def _plain(escape: str) -> str:
    return {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}.get(escape, escape)
