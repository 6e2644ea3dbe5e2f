"""Edits of a transform: the rules' edits within one function, as byte ranges of its file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stitchcuda.agent.units import TextEdit
from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import Edit
from stitchcuda.analysis.program.ir import Program, Site, Span
from stitchcuda.analysis.syntax.text import LineIndex

_ABOUT_WAITING = re.compile(rb"\b(wait|sync|synchroni[sz]\w*|finish\w*|complet\w*|barrier|done)\b", re.IGNORECASE)


def placed(program: Program, edit: Edit) -> TextEdit:
    """The same edit, in bytes of the file."""
    place = program.locate(edit.site)
    return TextEdit(place.path, place.start, place.end, edit.text.encode())


def line_of(program: Program, sources: dict[str, LineIndex], site: Site) -> int:
    """1-based."""
    place = program.locate(site)
    index = sources.get(place.path)
    return index.line_at(place.start) + 1 if index is not None else 0


def without_statement(body: Body, statement: Span, *, comments: bool = True) -> Edit:
    """Deletes a statement with its lines; with them (`comments`) a comment of its own right above that speaks of waiting
    and of nothing else that follows, and one of two blank lines that would meet."""
    edit = edits.remove(body, statement)
    start, end = edit.site.span
    text = body.text
    whole_lines = (start == 0 or text[start - 1 : start] == b"\n") and text[end - 1 : end] == b"\n"
    if not whole_lines:
        return edit
    above = text[text.rfind(b"\n", 0, max(start - 1, 0)) + 1 : start]
    below = _line_at(text, end)
    lone = not below.strip() or below.lstrip().startswith(b"}")
    if comments and lone and re.fullmatch(rb"[ \t]*//[^\n]*\n", above) and _ABOUT_WAITING.search(above):
        before = text[text.rfind(b"\n", 0, max(start - len(above) - 1, 0)) + 1 : start - len(above)]
        if not before.lstrip().startswith(b"//"):
            start -= len(above)
            above = before
    if not above.strip() and above and not below.strip() and below:
        end += len(below)
    elif not above.strip() and above and below.lstrip().startswith(b"}"):
        start -= len(above)  # no blank line before a closing brace
    return edits.replace(body, (start, end), "")


def merged_removals(found: Iterable[TextEdit]) -> tuple[TextEdit, ...]:
    """Deletions that overlap (two neighbours that both take the blank line between them) become one."""
    out: list[TextEdit] = []
    for edit in sorted(found, key=lambda e: (e.path, e.start, e.end)):
        last = out[-1] if out else None
        if last is not None and last.path == edit.path and edit.start < last.end and not last.text and not edit.text:
            out[-1] = TextEdit(edit.path, last.start, max(last.end, edit.end), b"")
        else:
            out.append(edit)
    return tuple(out)


def _line_at(text: bytes, start: int) -> bytes:
    end = text.find(b"\n", start)
    return text[start : end + 1 if end >= 0 else len(text)]
