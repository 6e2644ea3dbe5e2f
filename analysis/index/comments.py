"""Findings about the comments that silence findings, and whether a line was looked at well enough to say that one silences nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from stitchcuda.analysis.findings.finding import CommentInput, Finding
from stitchcuda.analysis.findings.suppressions import Suppression, suppressed
from stitchcuda.analysis.order.timeline import Timeline
from stitchcuda.analysis.program.ir import Function, Problem, Program
from stitchcuda.analysis.rules import ALL_CODES, COMMENT_RULES, KERNEL_RULES, RULES
from stitchcuda.analysis.syntax.text import LineIndex

_RAN = {*(r.code for r in RULES), *(r.code for r in KERNEL_RULES), *(r.code for r in COMMENT_RULES)}
_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(\w*)")
_PLAIN = (b"include", b"pragma")  # directives on which nothing can be found


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the analysis went through to the end: uids of functions, and the files that are not known as a whole."""

    functions: Collection[str] = frozenset()
    partly: Collection[str] = frozenset()


def coverage(
    timelines: Iterable[Timeline], kernels: Iterable[str], program: Program, problems: Iterable[Problem]
) -> Coverage:
    """Functions that every Timeline with them executed to the end, and kernels (uids) that were looked at."""
    through: set[str] = set(kernels)
    cut: set[str] = set()
    for timeline in timelines:
        through |= timeline.functions
        cut.update(c.site.function for c in timeline.cuts)
        if any(c.site.span == program.functions[timeline.entry].name_span for c in timeline.cuts):  # stopped early
            cut |= timeline.functions
    return Coverage(through - cut, {p.path for p in problems})


@dataclass
class FileComments:
    """The suppressions of one file, and what was found on its lines."""

    path: str
    text: bytes
    suppressions: tuple[Suppression, ...]
    lines: LineIndex
    found: dict[int, set[str]] = field(default_factory=dict)

    def findings(self, program: Program, coverage: Coverage) -> list[Finding]:
        """What is wrong with the comments, without what other comments silence."""
        if not self.suppressions:
            return []
        seen = _Seen(self, program, coverage)
        out: list[Finding] = []
        for rule in COMMENT_RULES:
            given = CommentInput(self.path, self.text, self.suppressions, ALL_CODES.keys(), self.found, seen.judged)
            here = list(rule.check(given))
            for finding in here:
                self.found.setdefault(self.line_of(finding), set()).add(finding.code)
            out += here
        return [f for f in out if not suppressed(self.suppressions, f.code, self.line_of(f))]

    def line_of(self, finding: Finding) -> int:
        return self.lines.line_at(finding.site.span[0])


class _Seen:
    """Which lines of a file were fully analysed."""

    def __init__(self, file: FileComments, program: Program, coverage: Coverage) -> None:
        self._lines, self._coverage = file.lines, coverage
        self._partly = file.path in coverage.partly
        self._functions = [f for f in program.functions.values() if f.path == file.path and f.body is not None]
        python = file.path.endswith((".py", ".pyi"))
        self._undecided: Mapping[int, bool] = {} if python else _undecided_lines(file.text)

    def judged(self, code: str, line: int) -> bool:
        if code not in _RAN or line in self._undecided or line >= len(self._lines):
            return False
        function = self._around(line)
        if function is None:
            return not self._partly
        return not function.has_error and function.uid in self._coverage.functions

    def _around(self, line: int) -> Function | None:
        """The innermost function on the line."""
        start = self._lines.start(line)
        end = self._lines.start(line + 1) if line + 1 < len(self._lines) else start + 1
        here = [f for f in self._functions if f.base < end and start < f.base + f.span[1]]
        return min(here, key=lambda f: f.span[1], default=None)


def _undecided_lines(text: bytes) -> dict[int, bool]:
    """Zero-based lines inside `#if` branches, of which the analysis may have taken the other, and those of directives with
    their continuations. What stands around the whole file (an include guard) is not meant."""
    lines = text.splitlines()
    code = [k for k, line in enumerate(lines) if line.strip() and not line.lstrip().startswith((b"//", b"/*", b"*"))]
    out: dict[int, bool] = {}
    open_at: list[int] = []
    continued = False
    for number, line in enumerate(lines):
        match = _DIRECTIVE.match(line)
        if match is not None and match[1] in _PLAIN:
            match = None
        if match is not None or continued:
            out[number] = True
        continued = (match is not None or continued) and line.rstrip().endswith(b"\\")
        if match is None:
            continue
        if match[1] in (b"if", b"ifdef", b"ifndef"):
            open_at.append(number)
        elif match[1] == b"endif" and open_at:
            begin = open_at.pop()
            if not (code and begin <= code[0] and number >= code[-1]):
                out.update(dict.fromkeys(range(begin, number + 1), True))
    return out
