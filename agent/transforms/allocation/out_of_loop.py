"""The first form: an allocation and its release in the body of one loop move out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stitchcuda.agent.transforms.allocation.lifetimes import Lifetime, Unfit, same_round
from stitchcuda.agent.transforms.allocation.pointer_uses import declared_once, host_values_only, mentions
from stitchcuda.agent.transforms.editing import merged_removals, without_statement
from stitchcuda.agent.units import TextEdit
from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.order.timeline import Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import (
    ApiKind,
    Block,
    Break,
    Const,
    Continue,
    Declare,
    Expr,
    Goto,
    Label,
    Loop,
    Name,
    Program,
    Return,
    Site,
    Span,
    Stmt,
    Switch,
    Throw,
    children,
    walk,
)

_WORDS = {Return: "return", Goto: "goto", Throw: "throw", Break: "break", Continue: "continue", Label: ""}
_PARALLEL = re.compile(rb"^[ \t]*#[ \t]*pragma[ \t]+(omp|acc)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Move:
    """A lifetime that fits, with its loop and the statements that move. Spans are relative to the function."""

    lifetime: Lifetime
    loop: Loop
    declaration: Declare | None  # when the pointer is declared in the loop
    allocation: Stmt
    free: Stmt


def move(given: RuleInput, lines: Sequence[Timeline], made: Lifetime) -> Move | Unfit:
    """The move, or why the loop's text does not allow it."""
    body, function = made.body, made.body.function
    site = made.site(made.allocation)
    if len(made.frees) != 1:
        return Unfit(site, "it is released in several places")
    loops = edits.loops_around(body, made.allocation.span)
    if not loops or edits.loops_around(body, made.frees[0].span) != loops:
        return Unfit(site, "allocation and release are not in one loop of the function")
    loop = loops[-1]
    around = edits.statements(body, loop.span)
    if loop.form == "do" or not isinstance(loop.body, Block) or not around or around[-1][0].span != loop.span:
        return Unfit(site, "the loop is no statement of a block with a body in braces")
    if _PARALLEL.search(body.text):
        return Unfit(site, "the loop may be shared by host threads")
    pieces: list[Stmt] = []
    for call in (made.allocation, made.frees[0]):
        found = edits.statements(body, call.span)
        if not found or found[-1][1] is not loop.body or not edits.sole(body, found[-1][0], call.span):
            return Unfit(made.site(call), "the call is not a statement of its own in the loop's body")
        pieces.append(found[-1][0])
    leaving = next(_ways_out(body, loop.body, True, True), None)
    if leaving is not None:
        return Unfit(Site(function.uid, function.path, leaving.span), "a way out of the round stands here")
    changing = _may_change(given.program, made, loop)
    if changing is not None:
        return changing
    declaration = declared_once(function, made.pointer)
    assert declaration is not None
    inside = edits.contains(loop.span, declaration.span)
    if inside and (declaration not in loop.body.body or not isinstance(declaration.init, Const | None)):
        return Unfit(site, f"the declaration of `{made.pointer}` cannot go with it")
    for mention in mentions(function, made.pointer):
        if not edits.contains(loop.span, mention.span):
            return Unfit(Site(function.uid, function.path, mention.span), f"`{made.pointer}` is used outside the loop")
    for piece in (loop, *pieces, *([declaration] if inside else [])):
        if not _whole_lines(body, piece.span):
            return Unfit(site, "other code stands on the same lines")
    for line in lines:
        found_unfit = _order(line, made)
        if found_unfit is not None:
            return found_unfit
    return Move(made, loop, declaration if inside else None, pieces[0], pieces[1])


def fitting(moves: Sequence[Move]) -> list[Move]:
    """Those that go together: of a declaration that names several pointers all or none."""
    kept = list(moves)
    while True:
        moved = {m.lifetime.pointer for m in kept}
        stay = [m for m in kept if m.declaration is not None and not _declared_with(m) <= moved]
        if not stay:
            return kept
        kept = [m for m in kept if m not in stay]


def edits_of(moves: Sequence[Move]) -> tuple[TextEdit, ...]:
    """The edits of one function: the calls leave the loop, in their order."""
    made: list[TextEdit] = []
    for loop in {m.loop.span: m.loop for m in moves}.values():
        made += _edits_of_loop([m for m in moves if m.loop is loop], loop)
    return tuple(made)


def _edits_of_loop(moves: list[Move], loop: Loop) -> list[TextEdit]:
    body = moves[0].lifetime.body
    function = body.function
    start = edits.extent(body, loop.span)[0]
    indent = body.text[edits.line_start(body.text, start) : start]
    ahead: dict[Span, None] = {}
    behind: dict[Span, None] = {}
    for m in sorted(moves, key=lambda m: m.allocation.span):
        if m.declaration is not None:
            ahead.setdefault(_lines(body, edits.extent(body, m.declaration.span)))
    for m in sorted(moves, key=lambda m: m.allocation.span):
        ahead.setdefault(_lines(body, edits.extent(body, m.allocation.span)))
    for m in sorted(moves, key=lambda m: m.free.span):
        behind.setdefault(_lines(body, edits.extent(body, m.free.span)))
    top = function.base + _above_comments(body.text, edits.line_start(body.text, start))
    end = edits.extent(body, loop.span)[1]
    newline = body.text.find(b"\n", end)
    bottom = function.base + (newline + 1 if newline >= 0 else len(body.text))
    removed = [
        _removal(body, span)
        for m in moves
        for span in (m.allocation.span, m.free.span, *([m.declaration.span] if m.declaration is not None else []))
    ]
    return [
        TextEdit(function.path, top, top, b"".join(_indented(body, s, indent) for s in ahead)),
        *merged_removals(dict.fromkeys(removed)),
        TextEdit(function.path, bottom, bottom, b"".join(_indented(body, s, indent) for s in behind)),
    ]


def _removal(body: Body, statement: Span) -> TextEdit:
    edit = without_statement(body, statement, comments=False)
    base = body.function.base
    return TextEdit(body.function.path, base + edit.site.span[0], base + edit.site.span[1], b"")


def _ways_out(body: Body, node: Stmt | Expr, breaks: bool, continues: bool) -> Iterator[Stmt | Expr]:
    """Statements that leave the round before its end, as the user wrote them (not within a check macro)."""
    for inner in children(node):
        word = _WORDS.get(type(inner))
        if word is not None and body.slice(inner.span).startswith(word):
            own = (isinstance(inner, Break) and not breaks) or (isinstance(inner, Continue) and not continues)
            if not own:
                yield inner
        nested = isinstance(inner, Loop)
        yield from _ways_out(
            body, inner, breaks and not nested and not isinstance(inner, Switch), continues and not nested
        )


def _may_change(program: Program, made: Lifetime, loop: Loop) -> Unfit | None:
    """The size is the same in every round."""
    body, function = made.body, made.body.function
    size = made.allocation.role("bytes")
    site = made.site(made.allocation)
    if size is None or not host_values_only(size):
        return Unfit(site, "the size is not known to be the same in every round")
    if not edits.visible(body, size, (loop.span[0], loop.span[0])):
        return Unfit(site, "the size changes in the loop, or means something else outside it")
    assert function.body is not None
    for name in {n.name for n in walk(size) if isinstance(n, Name)}:
        declared = [n.type for n in walk(function.body) if isinstance(n, Declare) and n.name == name]
        declared += [p.type for p in function.params if p.name == name]
        if any(t.reference for t in declared) or (not declared and not _constant(program, name)):
            return Unfit(site, f"`{name}`, of which the size is made, may be changed from elsewhere")
    return None


def _constant(program: Program, name: str) -> bool:
    """A name outside the function whose value never changes."""
    last = name.rsplit("::", 1)[-1]
    for module in program.modules.values():
        if any(known == last for known, _ in module.constants):
            return True
        if any(g.name == last and g.type.const for g in module.globals):
            return True
    return False


def _order(line: Timeline, made: Lifetime) -> Unfit | None:
    """The next round writes what the round before may still read: one stream has to order that. No other memory is
    allocated in the round when this one is not there: the peak stays."""
    site, free = made.site(made.allocation), made.site(made.frees[0])
    buffers = {b.id for b in line.buffers if b.site == site}
    streams = {o.stream for o in line.ops if o.site != free and any(a.buffer in buffers for a in o.accesses)}
    if len(streams) > 1 and not all(s is not None and line.streams[s].kind is StreamKind.LEGACY for s in streams):
        return Unfit(site, "several streams use the memory")
    mine = [o for o in line.ops if o.site == site]
    for op in mine:
        released = next((o for o in line.ops if o.site == free and o.id > op.id and same_round(line, op, o)), None)
        for other in line.ops:
            if other.kind is not ApiKind.ALLOC or other.site == site or not same_round(line, op, other):
                continue
            gone = any(
                o.kind is ApiKind.FREE and other.id < o.id < op.id and _touches(line, o, other.id) for o in line.ops
            )
            if gone or (released is not None and other.id > released.id):
                return Unfit(
                    other.site, "other memory is allocated in the loop when this is not: more would be needed at once"
                )
    return None


def _touches(line: Timeline, free: Op, allocation: int) -> bool:
    return any(line.buffers[a.buffer].alloc_op == allocation for a in free.accesses)


def _declared_with(made: Move) -> set[str]:
    """The names of the declaration that the pointer's declarator stands in."""
    assert made.declaration is not None and isinstance(made.loop.body, Block)
    body = made.lifetime.body
    whole = edits.extent(body, made.declaration.span)
    return {n.name for n in made.loop.body.body if isinstance(n, Declare) and edits.contains(whole, n.span)}


def _whole_lines(body: Body, span: Span) -> bool:
    start, end = edits.extent(body, span)
    before = body.text[edits.line_start(body.text, start) : start]
    newline = body.text.find(b"\n", end)
    rest = body.text[end:newline] if newline >= 0 else b"x"
    return not before.strip() and bool(re.fullmatch(rb"\s*(//.*|/\*.*\*/\s*)?", rest))


def _lines(body: Body, extent: Span) -> Span:
    return edits.line_start(body.text, extent[0]), body.text.find(b"\n", extent[1]) + 1


def _indented(body: Body, lines: Span, indent: bytes) -> bytes:
    """Lines with the first one's indentation exchanged."""
    text = body.text[lines[0] : lines[1]]
    old = text[: len(text) - len(text.lstrip(b" \t"))]
    return b"".join(
        indent + line[len(old) :] if line.startswith(old) else line for line in text.splitlines(keepends=True)
    )


def _above_comments(text: bytes, start: int) -> int:
    """The start of the comments and pragmas that stand right above a line."""
    while start > 0:
        above = edits.line_start(text, start - 1)
        if not re.fullmatch(rb"[ \t]*(//[^\n]*|#[ \t]*pragma[^\n]*)\n", text[above:start]):
            return start
        start = above
    return start
