"""Source edits for fixes: statements, lines, indentation and the user's own error-check macro.

Everything works on one function's text with spans relative to its start, as `Site` has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from stitchcuda.analysis.findings.around import holding
from stitchcuda.analysis.findings.finding import Edit, KernelInput, RuleInput
from stitchcuda.analysis.findings.outline import outline
from stitchcuda.analysis.program.ir import (
    Api,
    Block,
    Break,
    Case,
    Continue,
    Declare,
    Evaluate,
    Expr,
    Function,
    Goto,
    If,
    Label,
    Lambda,
    Launch,
    Loop,
    Name,
    PreprocIf,
    Return,
    Site,
    Span,
    Stmt,
    Switch,
    Throw,
    Try,
    walk,
)

_NOT_A_CHECK = frozenset(
    b"if while for switch return sizeof assert static_cast void int unsigned long bool auto decltype"
    b" exit _exit quick_exit abort puts fputs printf fprintf string runtime_error".split()
)
_CHECKED = re.compile(rb"([A-Za-z_][\w:]{0,200}\(\s*)(?=cuda(?!GetErrorString|GetErrorName)[A-Z]\w*\s*\()")
_STARTS_A_STATEMENT = re.compile(rb"(^|[;{}():=!&|,]|\b(else|do|return))\s*$")
_PRAGMA = re.compile(rb"[ \t]*#[ \t]*pragma\b[^\n]*\n\Z")

_TRAILING = re.compile(rb"\s*(//.*|/\*.*\*/\s*)?")
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Body:
    """A function with its text."""

    function: Function
    text: bytes

    def slice(self, span: Span) -> str:
        return self.text[span[0] : span[1]].decode(errors="replace")

    @property
    def newline(self) -> str:
        return _newline(self.text)


def body_of(given: RuleInput | KernelInput, uid: str) -> Body | None:
    """The function and its text; None when it is not C or C++ (edits are written in C) or its text is not at hand."""
    body = text_of(given, uid)
    return None if body is None or body.function.language == "python" else body


def text_of(given: RuleInput | KernelInput, uid: str) -> Body | None:
    """The function and its text, in whatever language; None when its text is not at hand."""
    function = given.program.functions.get(uid)
    if function is None or function.body is None:
        return None
    source = given.sources.get(function.path)
    if source is None:
        return None
    known = _bodies.get(uid)
    if known is not None and known[0] is source and known[1].function is function:
        return known[1]  # one text object: what is kept by the text is found without reading it again
    if len(_bodies) >= _MANY:
        _bodies.clear()
    body = Body(function, source[function.base : function.base + function.span[1]])
    _bodies[uid] = (source, body)
    return body


_MANY = 16
_bodies: dict[str, tuple[bytes, Body]] = {}


def statements(body: Body, span: Span) -> list[tuple[Stmt, Stmt]]:
    """The statements around a span that stand in a block, outermost first, each with that block (or case)."""
    found: list[tuple[Stmt, Stmt]] = []
    node: Stmt | Expr | None = body.function.body
    while node is not None:
        inner = next(iter(holding(node, span)), None)
        # A block with its statement's own span is the body of a macro: `if (x) CHECK(f());` has no block of the user's.
        written = isinstance(node, (Block, Case)) and inner is not None and inner.span != node.span
        if inner is not None and written and _is_statement(inner):
            found.append((inner, node))  # type: ignore[arg-type]
        node = inner
    # A macro that expands to `do { ... } while (0)` is one statement to its user: only the first with a span counts.
    kept: list[tuple[Stmt, Stmt]] = []
    for statement, parent in found:
        if not kept or statement.span != kept[-1][0].span:
            kept.append((statement, parent))
    return kept


def call_at(body: Body, span: Span) -> Api | Launch | None:
    """The API call or launch written at a span."""
    return next((n for n in nodes_at(body, span) if isinstance(n, (Api, Launch))), None)


def nodes_at(body: Body, span: Span) -> list[Stmt | Expr]:
    """The nodes with exactly this span, outermost first."""
    if body.function.body is None:
        return []
    return [n for n in _around(body.function.body, span) if n.span == span]


def nodes_around(body: Body, span: Span) -> list[Stmt | Expr]:
    """The nodes that hold this span, outermost first."""
    return list(_around(body.function.body, span)) if body.function.body is not None else []


def loops_around(body: Body, span: Span) -> list[Loop]:
    """Outermost first."""
    return [n for n in nodes_around(body, span) if isinstance(n, Loop)]


def checked(body: Body, call: str, near: int) -> str:
    """A statement for an API call, wrapped the way the function's nearest other call is."""
    nearest = min(_wraps(body.text), key=lambda wrap: abs(wrap[0] - near), default=None)
    if nearest is None:
        return f"{call};"
    _, opening, closing = nearest
    closing = re.sub(r'"[^"]*"', f'"{call[: call.index("(")]}"', closing, count=1)
    return f"{opening}{call}{closing};"


@lru_cache(maxsize=64)
def _wraps(text: bytes) -> tuple[tuple[int, str, str], ...]:
    """The wrapped calls of a function: where each starts, and what stands before and behind the call."""
    found = []
    for match in _CHECKED.finditer(text):
        word = match[1].rstrip(b"( \t").split(b"::")[-1]
        if word in _NOT_A_CHECK or word.startswith(b"cuda") or match[1].startswith(b"std::"):
            continue
        if not _STARTS_A_STATEMENT.search(text[line_start(text, match.start()) : match.start()]):
            continue  # `Status st(cudaMalloc(...))`, `throw Error(cudaFree(p))`
        inner = _closing(text, text.index(b"(", match.end()))
        outer = _closing(text, text.index(b"(", match.start()))
        if inner is None or outer is None or inner >= outer:
            continue
        suffix = text[inner + 1 : outer + 1].decode(errors="replace")
        if "\n" not in suffix:
            found.append((match.start(), match[1].decode(errors="replace"), suffix))
    return tuple(found)


def before(body: Body, statement: Span, lines: list[str]) -> Edit:
    """Insert lines before a statement, at its indentation, and before the `#pragma` lines that belong to it."""
    begin, _ = extent(body, statement)
    start = line_start(body.text, begin)
    indent = body.text[start:begin]
    if indent.strip() or start == 0:
        return Edit(site_of(body, (begin, begin)), "".join(f"{line} " for line in lines))
    while start > 0 and _PRAGMA.match(body.text, above := line_start(body.text, start - 1), start):
        start = above
    text = "".join(f"{indent.decode()}{line}{body.newline}" for line in lines)
    return Edit(site_of(body, (start, start)), text)


def after(body: Body, statement: Span, lines: list[str]) -> Edit:
    """Insert lines after a statement, at its indentation."""
    begin, end = extent(body, statement)
    start = line_start(body.text, begin)
    indent = body.text[start:begin]
    rest_end = body.text.find(b"\n", end)
    rest = body.text[end : rest_end if rest_end >= 0 else len(body.text)]
    if indent.strip() or rest_end < 0 or not _TRAILING.fullmatch(rest):
        return Edit(site_of(body, (end, end)), "".join(f" {line}" for line in lines))
    text = "".join(f"{indent.decode()}{line}{body.newline}" for line in lines)
    return Edit(site_of(body, (rest_end + 1, rest_end + 1)), text)


def remove(body: Body, statement: Span) -> Edit:
    """Delete a statement, and its lines with a comment behind it when nothing else stands on them; else with the blanks that
    set it off."""
    begin, end = extent(body, statement)
    text, start = body.text, line_start(body.text, begin)
    line_end = text.find(b"\n", end)
    alone = not text[start:begin].strip() and line_end >= 0 and bool(_TRAILING.fullmatch(text[end:line_end]))
    if alone and start > 0:
        return Edit(site_of(body, (start, line_end + 1)), "")
    if text[start:begin].strip() and not text[end : line_end if line_end >= 0 else len(text)].strip():
        begin = start + len(text[start:begin].rstrip(b" \t"))
    elif text[begin - 1 : begin] in (b" ", b"\t") or not text[start:begin].strip():
        end += len(text[end:]) - len(text[end:].lstrip(b" \t"))
    return Edit(site_of(body, (begin, end)), "")


def statement_text(body: Body, statement: Span) -> str:
    return body.slice(extent(body, statement))


def extent(body: Body, statement: Span) -> Span:
    """A statement as it is written: with its semicolon, which a macro call's span leaves out, and for a declarator the
    whole declaration it stands in."""
    text, (begin, end) = body.text, statement
    lead = text[max(text.rfind(mark, 0, begin) for mark in (b";", b"{", b"}")) + 1 : begin]
    words = _COMMENT.sub(b" ", lead)
    if words.strip() and not words.rstrip().endswith((b":", b")")) and b"#" not in words:
        begin -= len(lead) - len(re.match(rb"\s*((//[^\n]*|/\*.*?\*/)\s*)*", lead, re.DOTALL)[0])  # type: ignore[index]
        closing = text.find(b";", end)
        return begin, closing + 1 if closing >= 0 else end
    if text[end - 1 : end] != b";":
        following = re.compile(rb"\s*;").match(text, end)
        end = following.end() if following else end
    return begin, end


def sole(body: Body, statement: Stmt, call: Span) -> bool:
    """The statement does nothing but make this call, perhaps within the user's check, once or in a plain loop."""
    if isinstance(statement, Loop):
        inner = statement.body
        if isinstance(inner, Block) and len(inner.body) == 1 and inner.span != inner.body[0].span:
            inner = inner.body[0]
        if statement.form not in ("for", "range") or not (
            statement.init is None or isinstance(statement.init, Declare)
        ):
            return False
        return not isinstance(inner, Loop) and sole(body, inner, call)
    begin, end = extent(body, statement.span)
    if not begin <= call[0] < call[1] <= end:
        return False
    lead, rest = body.text[begin : call[0]], body.text[call[1] : end]
    if re.fullmatch(rb"(\(\s*void\s*\)\s*)?", lead):
        return not rest.strip(b"; \t\r\n")
    if not re.fullmatch(rb"[A-Za-z_][\w:]*\s*\(\s*", lead):
        return False
    closing = _closing(body.text, body.text.index(b"(", begin))
    return closing is not None and call[1] <= closing and not body.text[closing + 1 : end].strip(b"; \t\r\n")


def visible(body: Body, expr: Expr, place: Span) -> bool:
    """The expression means the same at another place of its function: what it names is declared there too, is not
    hidden, and is not given another value on the way."""
    function = body.function.body
    if function is None:
        return False
    here = expr.span
    around_here, around_place = nodes_around(body, here), nodes_around(body, place)
    names = {node.name for node in walk(expr) if isinstance(node, Name)}
    apart = [n for n in around_here if n not in around_place]
    if any(isinstance(n, Lambda) for n in apart):
        return False
    low, high = min(here[1], place[0]), max(here[0], place[0])
    for loop in (n for n in apart if isinstance(n, Loop)):  # another round may have changed it
        low, high = min(low, loop.span[0]), max(high, loop.span[1])
    seen = outline(function)
    for name in names:
        if any(contains(scope, here) != contains(scope, place) for scope in seen.scopes.get(name, ())):
            return False
        if any(low <= start <= high for start in seen.written.get(name, ())):
            return False
    return True


def replace(body: Body, span: Span, text: str) -> Edit:
    return Edit(site_of(body, span), text)


def merged(edits: list[Edit]) -> tuple[Edit, ...]:
    """Insertions at one place become one edit, in the order given."""
    out: dict[Site, Edit] = {}
    for edit in edits:
        known = out.get(edit.site)
        out[edit.site] = edit if known is None else Edit(edit.site, known.text + edit.text)
    return tuple(sorted(out.values(), key=lambda e: e.site.span))


def fresh_name(body: Body, wish: str) -> str:
    """An identifier that the function's text does not use."""
    base = re.sub(r"\W+", "_", wish).strip("_") or "data"
    name, count = base, 2
    words = _words(body.text) if base.isascii() else None
    while name.encode() in words if words is not None else re.search(rf"\b{re.escape(name)}\b".encode(), body.text):
        name, count = f"{base}{count}", count + 1
    return name


@lru_cache(maxsize=16)
def _words(text: bytes) -> frozenset[bytes]:
    return frozenset(re.findall(rb"\w+", text))


@lru_cache(maxsize=64)
def _newline(text: bytes) -> str:
    return "\r\n" if b"\r\n" in text else "\n"


def contains(outer: Span, inner: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def site_of(body: Body, span: Span) -> Site:
    """A span of the function that holds the body."""
    return Site(body.function.uid, body.function.path, span)


def _is_statement(node: Stmt | Expr) -> bool:
    return isinstance(node, _STATEMENTS)


_STATEMENTS = (
    Declare,
    Evaluate,
    Block,
    If,
    Loop,
    Switch,
    Return,
    Break,
    Continue,
    Goto,
    Label,
    Throw,
    Try,
    PreprocIf,
)


def _around(node: Stmt | Expr, span: Span) -> Iterator[Stmt | Expr]:
    stack = [node] if contains(node.span, span) else []
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(holding(current, span)))


def line_start(text: bytes, at: int) -> int:
    return text.rfind(b"\n", 0, at) + 1


def _closing(text: bytes, opening: int) -> int | None:
    """The parenthesis that closes the one at `opening`; strings and characters are skipped."""
    depth = 0
    for match in re.compile(rb"""[()]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""").finditer(text, opening):
        if match[0] == b"(":
            depth += 1
        elif match[0] == b")":
            depth -= 1
            if depth == 0:
                return match.start()
    return None
