"""Taking a code, or the whole comment, out of a comment that silences findings."""

from __future__ import annotations

from stitchcuda.analysis.findings.finding import Edit
from stitchcuda.analysis.findings.suppressions import Suppression
from stitchcuda.analysis.program.ir import Site, Span


def site(path: str, span: Span) -> Site:
    return Site("", path, span)


def without_code(path: str, text: bytes, comment: Suppression, number: int) -> Edit:
    """The text without the code at that place of the list; the last one takes the comment along."""
    if len(comment.places) <= 1:
        return without_comment(path, text, comment)
    start, end = comment.places[number]
    if number + 1 < len(comment.places):
        return Edit(site(path, (start, comment.places[number + 1][0])), "")
    return Edit(site(path, (comment.places[number - 1][1], end)), "")


def without_comment(path: str, text: bytes, comment: Suppression) -> Edit:
    """A line that held nothing else goes with its line end, blanks before the comment go along."""
    start, end = comment.own
    while start and text[start - 1 : start] in (b" ", b"\t"):
        start -= 1
    rest = end
    while text[rest : rest + 1] in (b" ", b"\t"):
        rest += 1
    at_start = start == 0 or text[start - 1 : start] in (b"\n", b"\r")
    at_end = rest == len(text) or text[rest : rest + 1] in (b"\n", b"\r")
    if at_start and at_end:
        rest += 2 if text[rest : rest + 2] == b"\r\n" else rest < len(text)
        return Edit(site(path, (start, rest)), "")
    if at_end:
        return Edit(site(path, (start, rest)), "")
    # code follows: one blank is enough between it and what stands before
    return Edit(site(path, (comment.own[0], rest)), "")
