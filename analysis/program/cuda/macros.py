"""Function-like and object-like macros: finding definitions and expanding invocations like inline code.

Two ways to expand. When every parameter of the body stands where an expression stands, the body is parsed once and
lowered with its parameters *bound* to the argument nodes of the invocation, which keep their own positions. Otherwise
(types, names, pasted tokens or whole statements as arguments) the text is substituted, parsed and lowered, with a table
of segments that maps positions inside arguments back. Everything else in an expansion has the span of the invocation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.context import EXPANSION_BUDGET, Context, Segment
from stitchcuda.analysis.program.ir import Call, Evaluate, Expr, Name, Opaque, Span, Stmt
from stitchcuda.analysis.syntax.parse import parse_tree
from tree_sitter import Node, Tree

MAX_NESTING = 8
_MAX_BODY = 8_000


@dataclass(frozen=True, slots=True)
class MacroDef:
    """A `#define`. `body` has its continuation lines joined and comments removed."""

    name: str
    params: tuple[str, ...] | None  # None: object-like
    body: str
    variadic: bool = False
    offset: int = field(default=0, compare=False)  # where the name starts in the file that defines it

    @property
    def acts(self) -> bool:
        """Whether an object-like macro is more than a constant or a type: its name alone then calls or does something."""
        return _object_acts(self.body)

    @property
    def alias(self) -> str:
        """The single name the body consists of, or ""."""
        return self.body if _NAME_ONLY.match(self.body) else ""


_NAME_ONLY = re.compile(r"[A-Za-z_]\w*$")
_OBJECT_ACTS = re.compile(r"[A-Za-z_]\w*\s*(?:<[^<>;]*>\s*)?(?:\(|<<<)|[;{}]|\b(?:return|goto|break|continue|throw)\b")
_CAST_ONLY = re.compile(
    r"(?:sizeof|alignof|static_cast|reinterpret_cast)\b|__attribute__|__declspec|__launch_bounds__|__align__"
)


@lru_cache(maxsize=4096)
def _object_acts(body: str) -> bool:
    return bool(_OBJECT_ACTS.search(body)) and not _CAST_ONLY.match(body)


# ---------------------------------------------------------------------------------------------------------- definitions

_DEFINE = re.compile(
    rb"^[ \t]*\#[ \t]*define[ \t]+([A-Za-z_]\w*)(\([^)\n]*\)|\((?:[^)\n\\]|\\\r?\n)*\))?((?:[^\n\\]|\\\r?\n|\\[^\n])*)",
    re.MULTILINE,
)
_JOIN = re.compile(r"\\\r?\n")
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)


def _strip_comments(body: str) -> str:
    if "/" not in body:
        return body
    return _COMMENT.sub(lambda m: " " if m.group(0).startswith("/") else m.group(0), body)


def collect_macros(text: bytes) -> dict[str, MacroDef]:
    """All `#define`s of a file, in every `#if` branch. Of several definitions of one name the last non-empty one counts:
    the other is usually the release-build or other-platform stub."""
    found: dict[str, MacroDef] = {}
    if b"define" not in text:
        return found
    for match in _DEFINE.finditer(text):
        name = match.group(1).decode()
        body = _strip_comments(_JOIN.sub(" ", match.group(3).decode("utf-8", "replace"))).strip()
        params: tuple[str, ...] | None = None
        variadic = False
        if match.group(2) is not None:
            listed = _JOIN.sub(" ", match.group(2).decode("utf-8", "replace"))[1:-1]
            names = [p.strip() for p in listed.split(",")] if listed.strip() else []
            if names and names[-1].endswith("..."):
                variadic = True
                names[-1] = names[-1][:-3].strip() or "__VA_ARGS__"
            params = tuple(names)
        if not body and name in found:
            continue
        found[name] = MacroDef(name, params, body, variadic, match.start(1))
    return found


# ------------------------------------------------------------------------------------------------------- parsed bodies

# Starts a string literal that stands for the text of a macro argument.
STRINGIFIED = "\x01"
_HEAD_STATEMENT = b"void f(){"
_HEAD_VALUE = b"void f(){return "
_STATEMENT_START = re.compile(
    r"(?:do|if|for|while|switch|return|goto|break|continue|throw|try|case|default|using|typedef|static)\b|[{;#]"
)
_STRINGIFY = re.compile(r"(?<!#)#(?!#)\s*([A-Za-z_]\w*)")
_VA_PASTE = re.compile(r",?\s*##\s*(?=__VA_ARGS__)")
_VA_OPT = re.compile(r"__VA_OPT__\s*\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Body:
    """A parsed macro body. `nodes` are its statements, or its one expression when `is_value`."""

    text: bytes
    tree: Tree
    nodes: tuple[Node, ...]
    is_value: bool
    has_error: bool


def _parse_body(body: str) -> Body:
    source = body.encode()
    if not _STATEMENT_START.match(body) and ";" not in body:
        text = _HEAD_VALUE + source + b"\n;}\n"
        tree = parse_tree(text)
        statements = _statements(tree)
        if not tree.root_node.has_error and len(statements) == 1:
            value = next((c for c in statements[0].named_children if c.kind_id != g.COMMENT), None)
            if value is not None:
                return Body(text, tree, (value,), True, False)
    text = _HEAD_STATEMENT + source + b"\n;}\n"
    tree = parse_tree(text)
    statements = _statements(tree)
    if (
        len(statements) == 1
        and statements[0].kind_id == g.EXPRESSION_STATEMENT
        and statements[0].named_child_count == 1
    ):
        return Body(text, tree, (statements[0].named_children[0],), True, tree.root_node.has_error)
    return Body(text, tree, tuple(statements), False, tree.root_node.has_error)


def _statements(tree: Tree) -> list[Node]:
    """The statements of the function `f` around a fragment, empty ones left out."""
    for item in tree.root_node.named_children:
        if item.kind_id == g.FUNCTION_DEFINITION:
            body = item.child_by_field_id(g.F_BODY)
            if body is not None:
                return [
                    c
                    for c in body.named_children
                    if c.kind_id != g.COMMENT and not (c.kind_id == g.EXPRESSION_STATEMENT and c.named_child_count == 0)
                ]
    return []


@dataclass(frozen=True, slots=True)
class Template:
    """A macro body whose parameters can be bound; `body` is None when text must be substituted instead."""

    body: Body | None


# An identifier directly below one of these is a name, not a value.
_NOT_VALUES = frozenset(
    {
        g.INIT_DECLARATOR,
        g.PARAMETER,
        g.OPTIONAL_PARAMETER,
        g.POINTER_DECLARATOR,
        g.REFERENCE_DECLARATOR,
        g.ARRAY_DECLARATOR,
        g.FUNCTION_DECLARATOR,
        g.DECLARATION,
        g.LABELED,
        g.QUALIFIED,
        g.TEMPLATE_FUNCTION,
        g.TEMPLATE_ARGUMENTS,
    }
)


@lru_cache(maxsize=4096)
def template(macro: MacroDef) -> Template:
    """The parsed body of a macro, when binding its parameters is exact enough."""
    if len(macro.body) > _MAX_BODY:
        return Template(None)
    text = _VA_PASTE.sub(", ", macro.body) if macro.variadic else macro.body
    text = _VA_OPT.sub(r"\1", text)
    text = _STRINGIFY.sub(rf'"{STRINGIFIED}\1"', text)
    if "##" in text:
        return Template(None)
    body = _parse_body(text)
    if body.has_error:
        return Template(None)
    names = {p.encode() for p in macro.params or ()} | ({b"__VA_ARGS__"} if macro.variadic else set())
    if names:
        stack: list[tuple[Node, bool]] = [(n, False) for n in body.nodes]
        while stack:
            node, as_name = stack.pop()
            if node.child_count == 0:
                word = body.text[node.start_byte : node.end_byte]
                if word in names and node.type != "string_content" and (node.kind_id != g.IDENTIFIER or as_name):
                    return Template(None)
                continue
            kind = node.kind_id
            value = node.child_by_field_id(g.F_VALUE) if kind in (g.INIT_DECLARATOR, g.DECLARATION) else None
            size = node.child_by_field_id(g.F_SIZE) if kind == g.ARRAY_DECLARATOR else None
            for child in node.children:
                as_value = (value is not None and child == value) or (size is not None and child == size)
                stack.append((child, kind in _NOT_VALUES and not as_value))
    return Template(body)


# ----------------------------------------------------------------------------------------------------------- expansion


def expand_statement(cx: Context, node: Node, out: list[Stmt]) -> bool:
    """Expand an expression statement that is a macro invocation. False when `node` is none."""
    if node.kind_id == g.CALL:
        function = node.child_by_field_id(g.F_FUNCTION)
        given = node.child_by_field_id(g.F_ARGUMENTS)
        if function is None or given is None or function.kind_id != g.IDENTIFIER:
            return False
        macro = cx.env.macros.get(cx.read(function))
        if macro is None or macro.params is None:
            return False
        pieces = _expand(cx, node, macro, given)
    else:
        name = cx.read(node)
        if cx.bindings is not None and name in cx.bindings and cx.binder is not None:
            for bound in cx.bindings[name]:
                if not (bound.kind_id in (g.CALL, g.IDENTIFIER) and expand_statement(cx.binder, bound, out)):
                    out.append(Evaluate(cx.binder.span(bound), cx.binder.expr(bound)))
            return True
        macro = cx.env.macros.get(name)
        if macro is None or macro.params is not None or not macro.body:
            return macro is not None and macro.params is None and not macro.body
        if not macro.acts:
            return False
        pieces = _expand(cx, node, macro, None)
    if pieces is None:
        return False
    if isinstance(pieces, list):
        out.extend(pieces)
    else:
        out.append(Evaluate(cx.span(node), pieces))
    return True


def open_statement(cx: Context, call: Node) -> tuple[Context, Body] | None:
    """The opened body of a call that is a macro invocation."""
    function, given = call.child_by_field_id(g.F_FUNCTION), call.child_by_field_id(g.F_ARGUMENTS)
    if function is None or given is None or function.kind_id != g.IDENTIFIER:
        return None
    macro = cx.env.macros.get(cx.read(function))
    if macro is None or macro.params is None or not macro.body:
        return None
    return open_body(cx, call, macro, given)


def expand_call_text(cx: Context, node: Node, out: list[Stmt]) -> bool:
    """Expand an invocation that parsed as a function declarator."""
    function, given = node.child_by_field_id(g.F_DECLARATOR), node.child_by_field_id(g.F_PARAMETERS)
    if function is None or given is None:
        return False
    macro = cx.env.macros.get(cx.read(function))
    if macro is None or macro.params is None:
        return False
    pieces = _expand(cx, node, macro, given)
    if isinstance(pieces, list):
        out.extend(pieces)
    elif pieces is not None:
        out.append(Evaluate(cx.span(node), pieces))
    return pieces is not None


def expand_declaration(cx: Context, node: Node, out: list[Stmt]) -> bool:
    """`ONE(float);` parses as a declaration of type `ONE`: expand it when it is a macro."""
    typed = node.child_by_field_id(g.F_TYPE)
    if typed is None or typed.kind_id != g.TYPE_IDENTIFIER or typed.start_byte != node.start_byte:
        return False
    macro = cx.env.macros.get(cx.read(typed))
    if macro is None or macro.params is None or macro.name in cx.active:
        return False
    rest = cx.text[typed.end_byte : node.end_byte]
    opening = typed.end_byte + len(rest) - len(rest.lstrip())
    if cx.text[opening : opening + 1] != b"(":
        return False
    closing = _closing(cx.text, opening, node.end_byte)
    if closing < 0 or cx.text[closing + 1 : node.end_byte].strip(b"; \t\r\n"):
        return False
    text, segments = substitute(macro, cx.text, _split(cx.text, opening + 1, closing))
    opened = _open_text(cx, cx.map(node.start_byte, closing + 1), text, segments, cx.active | {macro.name})
    if opened is None:
        return False
    pieces = _lower_body(*opened)
    out.extend(pieces if isinstance(pieces, list) else [Evaluate(cx.span(node), pieces)])
    return True


def expand_call(cx: Context, node: Node, macro: MacroDef, given: Node) -> Expr:
    """The value of a function-like macro invocation."""
    pieces = _expand(cx, node, macro, given)
    if pieces is None:
        from stitchcuda.analysis.program.cuda.expressions import arguments

        return Call(cx.span(node), Name(cx.span(node), macro.name), arguments(cx, given))
    return _as_value(cx, node, pieces)


def expand_value(cx: Context, node: Node, macro: MacroDef, given: tuple[()]) -> Expr:
    """The value of an object-like macro whose body does something."""
    pieces = _expand(cx, node, macro, None)
    if pieces is None:
        return Name(cx.span(node), macro.name)
    return _as_value(cx, node, pieces)


def _as_value(cx: Context, node: Node, pieces: Expr | list[Stmt]) -> Expr:
    if not isinstance(pieces, list):
        return pieces
    from stitchcuda.analysis.program.cuda.expressions import run_now

    if not pieces:
        return Opaque(cx.span(node), "empty macro")
    return run_now(cx, node, pieces)


def _expand(cx: Context, node: Node, macro: MacroDef, given: Node | None) -> Expr | list[Stmt] | None:
    """The expression or the statements an invocation stands for; None when it is not expanded."""
    if not macro.body and macro.name not in cx.active:
        return []
    opened = open_body(cx, node, macro, given)
    return _lower_body(*opened) if opened is not None else None


def open_body(cx: Context, node: Node, macro: MacroDef, given: Node | None) -> tuple[Context, Body] | None:
    """The parsed body of an invocation, and the context to lower it in. None when it must not be expanded."""
    if macro.name in cx.active or len(cx.active) >= MAX_NESTING:
        return None
    tally = cx.tally
    tally.expanded += len(macro.body)
    if tally.expanded > EXPANSION_BUDGET:
        return None
    arguments = [c for c in given.named_children if c.kind_id != g.COMMENT] if given is not None else []
    active = cx.active | {macro.name}
    span = cx.span(node)
    bound = _bind(macro, arguments) if given is None or given.kind_id == g.ARGUMENT_LIST else None
    if bound is not None and not (given is not None and given.has_error):
        body = template(macro).body
        if body is not None:
            inner = Context(body.text, 0, cx.env, tally, fixed=span, bindings=bound, binder=cx, outer=cx, active=active)
            return inner, body
    pieces = split_arguments(cx.text, given) if given is not None else []
    text, segments = substitute(macro, cx.text, pieces)
    return _open_text(cx, span, text, segments, active)


def _open_text(
    cx: Context, span: Span, text: str, segments: list[Segment], active: frozenset[str]
) -> tuple[Context, Body] | None:
    """Parse substituted text; None when it is too long, or broken and of no interest."""
    cx.tally.expanded += len(text)
    if len(text) > _MAX_BODY * 4:
        return None
    body = _parse_body(text)
    if body.has_error and not _MATTERS.search(text):
        return None
    shift = len(_HEAD_VALUE if body.text.startswith(_HEAD_VALUE) else _HEAD_STATEMENT)
    moved = tuple(Segment(s.start + shift, s.end + shift, s.origin, s.origin_end, s.exact) for s in segments)
    inner = Context(body.text, 0, cx.env, cx.tally, fixed=span, segments=moved, outer=cx, active=active)
    # The arguments' text may name parameters of the macro around this one.
    inner.bindings, inner.binder = cx.bindings, cx.binder
    return inner, body


_HEADER = re.compile(r"(?:.*[;{]\s*)?(?:for|while|if|switch|else)\b.*\)$|.*\belse$", re.DOTALL)


def expand_header(cx: Context, node: Node, body: Node, out: list[Stmt]) -> bool:
    """Expand a macro that is the head of a statement (`#define FOR(i, n) for (int i = 0; i < n; ++i)`) together with the
    statement `body` after it. False when `node` is no such invocation."""
    if node.kind_id == g.EXPRESSION_STATEMENT and node.named_child_count == 1:
        node = node.named_children[0]
    if node.kind_id == g.CALL:
        function, given = node.child_by_field_id(g.F_FUNCTION), node.child_by_field_id(g.F_ARGUMENTS)
    elif node.kind_id == g.FUNCTION_DECLARATOR:
        function, given = node.child_by_field_id(g.F_DECLARATOR), node.child_by_field_id(g.F_PARAMETERS)
    else:
        return False
    if function is None or given is None or function.kind_id != g.IDENTIFIER:
        return False
    macro = cx.env.macros.get(cx.read(function))
    if macro is None or macro.params is None or macro.name in cx.active or not _HEADER.match(macro.body):
        return False
    text, segments = substitute(macro, cx.text, split_arguments(cx.text, given))
    head = len(text.encode()) + 1
    tail = cx.text[body.start_byte : body.end_byte]
    segments.append(Segment(head, head + len(tail), body.start_byte, body.end_byte))
    whole = cx.map(node.start_byte, body.end_byte)
    opened = _open_text(cx, whole, f"{text} {tail.decode('utf-8', 'replace')}", segments, cx.active)
    if opened is None:
        return False
    inner, parsed = opened
    for each in parsed.nodes:
        inner.stmt(each, out)
    return True


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
        closing = _closing(cx.text, match.end() - 1, end)
        if closing < 0:
            continue
        add(cx.text[position : match.start()], position, match.start(), True)
        text, inner = substitute(macro, cx.text, _split(cx.text, match.end(), closing))
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


def _closing(text: bytes, opening: int, end: int) -> int:
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


_MATTERS = re.compile(r"<<<|\bcu(?:da|[A-Z]|blas|fft|dnn|rand|sparse|solver)|\bnccl|\b(?:return|goto|break|continue)\b")


def _lower_body(cx: Context, body: Body) -> Expr | list[Stmt]:
    if body.is_value and body.nodes:
        node = body.nodes[0]
        # A value macro that wraps a statement macro: `#define CHECK(x) CHECK_AT(x, __FILE__)`.
        out: list[Stmt] = []
        if node.kind_id in (g.CALL, g.IDENTIFIER) and expand_statement(cx, node, out):
            if len(out) == 1 and isinstance(out[0], Evaluate):
                return out[0].expr
            return out
        return cx.expr(node)
    statements: list[Stmt] = []
    for node in body.nodes:
        cx.stmt(node, statements)
    return statements


def _bind(macro: MacroDef, arguments: list[Node]) -> dict[str, tuple[Node, ...]] | None:
    """Parameters to argument nodes; None when they do not match one to one."""
    names = macro.params or ()
    if macro.variadic:
        fixed = len(names) - 1
        if len(arguments) < fixed:
            return None
        bound: dict[str, tuple[Node, ...]] = {n: (arg,) for n, arg in zip(names[:fixed], arguments, strict=False)}
        bound[names[-1]] = tuple(arguments[fixed:])
    else:
        if len(arguments) != len(names):
            return None
        bound = {n: (arg,) for n, arg in zip(names, arguments, strict=True)}
    for parts in bound.values():
        if any(
            p.has_error or p.kind_id in (g.TYPE_DESCRIPTOR, g.PRIMITIVE_TYPE, g.SIZED_TYPE, g.COMPOUND) for p in parts
        ):
            return None
    return bound


_OPEN = {40: 41, 91: 93, 123: 125}
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?\*/|[()\[\]{},]', re.DOTALL)


def split_arguments(text: bytes, given: Node) -> list[tuple[int, int]]:
    """Byte ranges of the arguments between the parentheses of an argument list."""
    return _split(text, given.start_byte + 1, given.end_byte - 1)


def _split(text: bytes, start: int, end: int) -> list[tuple[int, int]]:
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
