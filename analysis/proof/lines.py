"""Macros that tell the line where they are used: lines move when statements come or go.

An error check may use one, as it is told only when something failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stitchcuda.analysis.proof.correspond import Correspondence, Trees, line_of, side_of
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.proof.shapes import shape_of

_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\[^\n]|\\\r?\n)*)", re.MULTILINE)
_PLACE = re.compile(rb"\b(__LINE__|__COUNTER__|__builtin_LINE)\b")

_BRANCHES = re.compile(rb"\bif\b|[!=]=|\?|\|\|")
_STATUS = re.compile(r"cu[a-zA-Z]\w*$|nccl\w+$")


def moving_lines(both: Correspondence) -> Iterator[ProofFinding]:
    """Uses, in files that changed, of macros that tell their line and are no checks."""
    bodies = {m[1].decode(): m[2] for text in both.before.sources.values() for m in _DEFINE.finditer(text)}
    macros = _placed(bodies)
    if not macros:
        return
    checks = {name for name in macros if _BRANCHES.search(bodies[name])}
    trees = Trees(both.before)
    program = both.before.program
    changed = {p for p, text in both.before.sources.items() if both.after.sources[p] != text}
    for uid in sorted(u for u, f in program.functions.items() if f.path in changed and f.body is not None):
        function = program.functions[uid]
        side = side_of(both.before, trees, function)
        for piece in side.body.pieces:
            used = macros.intersection(piece.words)
            if used and shape_of(program, side, piece).check not in used and not _of_a_call(piece.words, used, checks):
                yield _finding(both, function.path, min(used), piece.span[0])
        words = side.words_outside()
        used = macros.intersection(words)
        if used and not _of_a_call(tuple(words), used, checks):
            yield _finding(both, function.path, min(used), next(t.start for t in side.body.glue if t.text in used))


def _finding(both: Correspondence, path: str, macro: str, offset: int) -> ProofFinding:
    line = line_of(both.before, path, offset)
    return ProofFinding(f"`{macro}` may tell the line of this, which moves", path, line, True)


def _placed(bodies: Mapping[str, bytes]) -> set[str]:
    """The macros that tell their line, themselves or through another one."""
    found = {name for name, body in bodies.items() if _PLACE.search(body)}
    while True:
        words = re.compile(rb"\b(" + b"|".join(n.encode() for n in found) + rb")\b") if found else None
        more = {n for n, b in bodies.items() if n not in found and words is not None and words.search(b)}
        if not more:
            return found
        found |= more


def _of_a_call(words: tuple[str, ...], macros: set[str], checks: set[str]) -> bool:
    """All uses look at the status of a CUDA call or of a library's: `CHECK(cudaMemset(...))`."""
    return all(
        word in checks and words[k + 1 : k + 2] == ("(",) and bool(_STATUS.match("".join(words[k + 2 : k + 3])))
        for k, word in enumerate(words)
        if word in macros
    )
