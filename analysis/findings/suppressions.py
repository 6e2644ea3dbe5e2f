"""Comments that silence a finding: `// stitchcuda: ignore[code, code] reason`, in Python `# stitchcuda: ignore[code]`.

A comment counts for its own lines and, when it stands alone, for the next line of code. Text that only looks like a comment (inside
a string) counts for nothing; inside a Python string that holds CUDA code the comments of that code count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.analysis.program.ir import Span

_MARK = re.compile(rb"\bstitchcuda:\s*ignore([\w-]*)(?:[ \t]*\[([^\]\n]*)\])?")
_C = re.compile(
    rb"(?P<comment>//(?:\\\r?\n|[^\r\n])*|/\*.*?(?:\*/|\Z))"
    rb'|R"(?P<fence>[^()\\\s]{0,16})\(.*?(?:\)(?P=fence)"|\Z)'
    rb'|"(?:\\.|[^"\\\r\n])*"'
    rb"|(?<![0-9A-Za-z_])(?:u8|[uUL])?'(?:\\.|[^'\\\r\n])*'",
    re.DOTALL,
)
_PYTHON = re.compile(
    rb"(?P<comment>#[^\r\n]*)"
    rb'|"""(?:\\.|[^\\])*?(?:"""|\Z)'
    rb"|'''(?:\\.|[^\\])*?(?:'''|\Z)"
    rb'|"(?:\\.|[^"\\\r\n])*"'
    rb"|'(?:\\.|[^'\\\r\n])*'",
    re.DOTALL,
)
_MARKS = re.compile(rb"^[/*#!<\s]*$")  # what a comment begins with


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment. Lines are zero-based, spans count bytes of the file; `covers` are the lines whose findings it silences."""

    line: int
    codes: tuple[str, ...]
    reason: str
    covers: frozenset[int]
    places: tuple[Span, ...]  # of the codes
    mark: Span  # from `stitchcuda:` to the closing bracket
    own: Span  # what goes when it goes: the whole comment, or its part of a comment that says more
    form: str = ""  # what stands where `ignore[...]` is expected and is none: `ignore-file[...]`, or no brackets


def suppressions(text: bytes, path: str = "") -> tuple[Suppression, ...]:
    """All of a file, in order. `path` tells the language."""
    if b"stitchcuda:" not in text:
        return ()
    comments = list(_comments(text, path.endswith((".py", ".pyi"))))
    code = bytearray(text)
    for start, end in comments:
        code[start:end] = re.sub(rb"[^\r\n]", b" ", text[start:end])
    ends = [m.start() for m in re.finditer(rb"\r\n|\n|\r", text)]
    starts = [0, *(m.end() for m in re.finditer(rb"\r\n|\n|\r", text))]
    lines = _Lines(text, bytes(code), starts, [*ends, len(text)])
    return tuple(s for span in comments for s in _in_comment(text, span, lines))


def suppressed(known: tuple[Suppression, ...], code: str, line: int) -> bool:
    return any(line in s.covers and code in s.codes for s in known)


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a file; `code` is its text with blanks for comments."""

    text: bytes
    code: bytes
    starts: list[int]
    ends: list[int]

    def at(self, offset: int) -> int:
        low, high = 0, len(self.starts) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.starts[middle] <= offset else (low, middle - 1)
        return low

    def alone(self, first: int, last: int) -> bool:
        return not self.code[self.starts[first] : self.ends[last]].strip()

    def next_code(self, number: int) -> list[int]:
        """The next line that is no comment, if any; a blank line ends the search."""
        for later in range(number, len(self.starts)):
            start, end = self.starts[later], self.ends[later]
            if self.code[start:end].strip() or not self.text[start:end].strip():
                return [later]
        return []


def _comments(text: bytes, python: bool, offset: int = 0) -> Iterator[Span]:
    for match in (_PYTHON if python else _C).finditer(text):
        if match["comment"] is not None:
            yield match.start() + offset, match.end() + offset
        elif python and b"__global__" in match[0]:  # a kernel in a string
            yield from _comments(match[0].strip(b"\"'"), False, match.start() + _quotes(match[0]))


def _quotes(literal: bytes) -> int:
    return len(literal) - len(literal.lstrip(literal[:1]))


def _in_comment(text: bytes, span: Span, lines: _Lines) -> Iterator[Suppression]:
    comment = text[span[0] : span[1]]
    marks = list(_MARK.finditer(comment))
    for match in marks:
        begins = bool(_MARKS.match(comment[: match.start()]))
        listed, form = match[2], ""
        if match[1] or listed is None:
            if not begins:  # prose that mentions it
                continue
            listed, form = b"", match[0].partition(b":")[2].strip().decode(errors="replace")
        places: list[Span] = []
        at = span[0] + match.start(2)
        for part in listed.split(b","):
            if part.strip():
                start = at + len(part) - len(part.lstrip())
                places.append((start, start + len(part.strip())))
            at += len(part) + 1
        first, last = lines.at(span[0]), lines.at(span[1])
        covers = set(range(first, last + 1))
        if lines.alone(first, last):
            covers.update(lines.next_code(last + 1))
        rest = re.split(rb"\*/|[\r\n]", comment[match.end() :], maxsplit=1)[0]
        mark = (span[0] + match.start(), span[0] + match.end())
        whole = begins and len(marks) == 1 and b"\n" not in comment
        yield Suppression(
            lines.at(mark[0]),
            tuple(text[a:b].decode(errors="replace") for a, b in places),
            rest.decode(errors="replace").strip(),
            frozenset(covers),
            tuple(places),
            mark,
            span if whole else (mark[0], mark[1] + len(rest.rstrip())),
            form,
        )
