"""A change in the making: deletions and replacements in absolute bytes, tidied into edits once all of it is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from stitchcuda.agent.units import TextEdit
from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.program.ir import (
    Binary,
    Block,
    Cast,
    Const,
    Declare,
    Function,
    Member,
    Name,
    Program,
    Site,
    SizeOf,
    Span,
    Stmt,
    Unary,
    walk,
)

_NOT_CODE = re.compile(
    rb"""//(?:[^\n\\]|\\.)*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_COMMENT_LINE = re.compile(rb"[ \t]*(//[^\n]*|/\*((?!\*/).)*\*/[ \t]*)\r?\n?\Z")
_BLANK_LINE = re.compile(rb"[ \t]*\r?\n\Z")


class Refused(Exception):
    """The change cannot be made; `path` and `at` (a byte offset) show what prevents it."""

    def __init__(self, reason: str, path: str, at: int) -> None:
        super().__init__(reason)
        self.reason, self.path, self.at = reason, path, at


def refused_at(program: Program, site: Site, reason: str) -> Refused:
    return Refused(reason, site.path, program.locate(site).start)


@lru_cache(maxsize=64)
def code_of(text: bytes) -> bytes:
    """The text with comments, strings and characters blanked: the same length, so that offsets stay."""
    return _NOT_CODE.sub(lambda m: re.sub(rb"[^\n]", b" ", m[0]), text)


def words(code: bytes, name: str, start: int = 0, end: int | None = None) -> list[Span]:
    """Where an identifier stands in code, as absolute spans; members (`x.name`, `x->name`) count, too: better one too many."""
    pattern = re.compile(rb"(?<![A-Za-z0-9_])" + re.escape(name.encode()) + rb"(?![A-Za-z0-9_])")
    return [m.span() for m in pattern.finditer(code, start, len(code) if end is None else end)]


def inside(span: Span, holders: Iterable[Span]) -> bool:
    return any(h[0] <= span[0] and span[1] <= h[1] for h in holders)


@dataclass
class Draft:
    """`deleted` holds whole statements, `replaced` bits of text; both by path, in absolute bytes."""

    sources: Mapping[str, bytes]
    deleted: dict[str, set[Span]] = field(default_factory=dict)
    replaced: dict[str, dict[Span, bytes]] = field(default_factory=dict)

    def replace(self, path: str, span: Span, text: str) -> None:
        self.replaced.setdefault(path, {})[span] = text.encode()

    def delete(self, body: Body, statement: Stmt) -> None:
        """A statement; of a declaration with several declarators, only the one meant."""
        group = declarators(body, statement) if isinstance(statement, Declare) else []
        if len(group) > 1:
            k = next(i for i, other in enumerate(group) if other.span == statement.span)
            span = (group[0].span[0], group[1].span[0]) if k == 0 else (group[k - 1].span[1], group[k].span[1])
            self.deleted.setdefault(body.function.path, set()).add(absolute(body, span))
            return
        edit = edits.remove(body, statement.span)
        self.deleted.setdefault(body.function.path, set()).add(absolute(body, edit.site.span))

    def touched(self, path: str) -> list[Span]:
        return [*self.deleted.get(path, ()), *self.replaced.get(path, {})]

    def join(self, other: Draft) -> None:
        for path, spans in other.deleted.items():
            self.deleted.setdefault(path, set()).update(spans)
        for path, texts in other.replaced.items():
            self.replaced.setdefault(path, {}).update(texts)

    def drop_orphans(self, body: Body) -> None:
        """Deletes local variables that nothing else in the function uses any longer, when making them does nothing."""
        if body.function.body is None:
            return
        path, base = body.function.path, body.function.base
        code = code_of(self.sources[path])
        again = True
        while again:
            again = False
            for node in walk(body.function.body):
                if not isinstance(node, Declare) or node.static or node.type.reference or not _idle(node):
                    continue
                own = (base + node.name_span[0], base + node.name_span[1])
                gone = self.touched(path)
                uses = [u for u in words(code, node.name, base, base + body.function.span[1]) if u != own]
                if inside(own, gone) or not uses or not all(inside(u, gone) for u in uses):
                    continue
                if not plain_place(body, node):
                    continue
                self.delete(body, node)
                again = True

    def edits(self) -> tuple[TextEdit, ...]:
        """Deletions that meet become one, and blank lines and comments that they would leave over go with them."""
        made: list[TextEdit] = []
        for path in sorted({*self.deleted, *self.replaced}):
            text = self.sources[path]
            spans = _merged(sorted(self.deleted.get(path, ())))
            for start, end in spans:
                start, end = _tidy(text, start, end)
                made.append(TextEdit(path, start, end, b""))
            for (start, end), new in self.replaced.get(path, {}).items():
                if not inside((start, end), spans):
                    made.append(TextEdit(path, start, end, new))
        return tuple(sorted(made, key=lambda e: (e.path, e.start, e.end)))


def absolute(body: Body, span: Span) -> Span:
    return body.function.base + span[0], body.function.base + span[1]


def declarators(body: Body, declared: Declare) -> list[Declare]:
    """All that is declared in the statement that declares this."""
    whole = edits.extent(body, declared.span)
    if body.function.body is None:
        return [declared]
    found = [n for n in walk(body.function.body) if isinstance(n, Declare) and edits.contains(whole, n.span)]
    return sorted({n.span: n for n in found}.values(), key=lambda n: n.span)


def plain_place(body: Body, node: Stmt) -> bool:
    """A statement of a block, not the head of a loop or condition."""
    found = edits.statements(body, node.span)
    return bool(found) and found[-1][0].span == node.span and isinstance(found[-1][1], Block)


def top_level(function: Function, span: Span) -> Stmt | None:
    """The statement of the function's outermost block that holds a span."""
    if function.body is None:
        return None
    return next((s for s in function.body.body if edits.contains(s.span, span)), None)


_IDLE = (Const, Name, Binary, Unary, Member, SizeOf, Cast)


def _idle(declared: Declare) -> bool:
    """Making the variable has no effect but itself: arithmetic on what is there, no call and no object."""
    if declared.init is None:
        return not declared.type.args
    return all(isinstance(n, _IDLE) for n in walk(declared.init))


def _merged(spans: list[Span]) -> list[Span]:
    out: list[Span] = []
    for start, end in spans:
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def _tidy(text: bytes, start: int, end: int) -> Span:
    if not _line_begins(text, start) or not _line_begins(text, end):
        return start, end
    after = _line_at(text, end)
    ends_here = _BLANK_LINE.match(after) is not None or after.lstrip().startswith(b"}")
    if ends_here:  # comments that headed only what is deleted
        top = start
        while top > 0 and _COMMENT_LINE.match(_line_before(text, top)):
            top -= len(_line_before(text, top))
        if top < start and (
            _BLANK_LINE.match(_line_before(text, top)) or _line_before(text, top).rstrip().endswith(b"{")
        ):
            start = top
    before = _line_before(text, start)
    if _BLANK_LINE.match(after) and (_BLANK_LINE.match(before) or before.rstrip().endswith(b"{")):
        end += len(after)
    elif after.lstrip().startswith(b"}") and _BLANK_LINE.match(before):
        start -= len(before)
    return start, end


def _line_begins(text: bytes, at: int) -> bool:
    return at == 0 or text[at - 1 : at] == b"\n"


def _line_at(text: bytes, at: int) -> bytes:
    end = text.find(b"\n", at)
    return text[at : end + 1 if end >= 0 else len(text)]


def _line_before(text: bytes, at: int) -> bytes:
    return text[text.rfind(b"\n", 0, max(at - 1, 0)) + 1 : at] if at > 0 else b""
