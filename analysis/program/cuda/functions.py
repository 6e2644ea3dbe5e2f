"""Lowering one function, and the cache of lowered functions."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TypeAlias

from stitchcuda.analysis.program import api
from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.context import Context, Environment, Segment, Tally
from stitchcuda.analysis.program.cuda.declarations import FunctionItem, local_types
from stitchcuda.analysis.program.cuda.declarators import (
    VOID,
    base_type,
    declared,
    described_type,
    params,
    scope_name,
    specifiers,
)
from stitchcuda.analysis.program.cuda.expressions import arguments
from stitchcuda.analysis.program.cuda.macro_bodies import MacroDef
from stitchcuda.analysis.program.cuda.macro_text import expand_text
from stitchcuda.analysis.program.cuda.statements import block, one
from stitchcuda.analysis.program.ir import (
    Block,
    Construct,
    Evaluate,
    Expr,
    InitList,
    Opaque,
    Param,
    Record,
    Span,
    Stmt,
    TypeRef,
)
from stitchcuda.analysis.syntax.parse import Syntax, error_bytes, parse_cuda
from tree_sitter import Node

_MAX_LOCAL_TYPES = 64
_GENERATIONS = 4  # lowerings of a file whose functions are kept after the one that did not need them any more
_INITIALIZERS = g.kind("field_initializer_list")
_INITIALIZER = g.kind("field_initializer")
_TRAILING = g.kind("trailing_return_type")


_Text: TypeAlias = tuple[bytes, int, bool]  # digest of a function's text, table of its file, whether it has errors
_Names: TypeAlias = tuple[bytes, bytes, bool]  # the same with what its names mean in place of the table


@dataclass(frozen=True, slots=True)
class Lowered:
    """What one function's text became, independent of where it stands."""

    name: str
    scope: str  # written before the name: `Model` of `void Model::run()`
    name_span: Span
    params: tuple[Param, ...]
    returns: TypeRef
    body: Block | None
    space: str
    static: bool
    initializers: tuple[tuple[str, Expr], ...]
    launch_bounds: tuple[Expr, ...]
    cuda_calls: int
    has_error: bool
    digest: str
    mentions: frozenset[str]
    records: tuple[Record, ...] = ()  # types declared inside
    aliases: tuple[tuple[str, TypeRef], ...] = ()
    constants: tuple[tuple[str, Expr], ...] = ()


@dataclass(slots=True)
class LoweringCache:
    """Lowered functions by text and by the meaning of the names in it. One cache may serve many files.

    What the last lowerings of a file did not need is forgotten: an undo, or the brace after the one that was missing, finds its
    functions again, and an afternoon of typing does not fill the memory."""

    # With the name that it has in `by_names`: looking that up anew would cost more than the rest of a hit.
    by_text: dict[_Text, tuple[Lowered, _Names]] = field(default_factory=dict)
    by_names: dict[_Names, Lowered] = field(default_factory=dict)
    tables: dict[str, tuple[Environment, int]] = field(default_factory=dict)
    syntax: dict[str, Syntax | None] = field(default_factory=dict)  # of files that change, without errors
    looked_at: str = ""  # the file in front of the user, which is likely to change
    numbers: int = 0  # of `tables`, never given twice
    misses: int = 0
    _unchanged: bool = False  # the one that is looked at: a tree costs memory for nothing while a file does not change
    # By path: what its last lowering needed, and what each of those before it was the last to need.
    _used: dict[str, dict[_Text, _Names]] = field(default_factory=dict)
    _gone: dict[str, deque[dict[_Text, _Names]]] = field(default_factory=dict)

    def look_at(self, path: str) -> None:
        """The user looks at this file now."""
        if path != self.looked_at:
            if self._unchanged:
                self.syntax[self.looked_at] = None
            self.looked_at, self._unchanged = path, False

    def parse(self, path: str, text: bytes) -> Syntax:
        """The syntax of a file. From its second text on the tree is kept for the next; of the file that is looked at, from the first on."""
        again = path in self.syntax
        made = parse_cuda(text, self.syntax.get(path))
        if path == self.looked_at:
            self._unchanged = not again
        elif not again:
            self.syntax[path] = None
            return made
        if not made.error_bytes and not made.masked:
            self.syntax[path] = made
        else:
            self.syntax.setdefault(path, None)
        return made

    def table_id(self, path: str, environment: Environment) -> int:
        """A number that stands for the meaning of all names of a file, the same while nothing changes."""
        known = self.tables.get(path)
        if known is not None and known[0] == environment:
            return known[1]
        self.numbers += 1
        number = self.numbers
        self.tables[path] = (environment, number)
        return number

    def lowered(self, path: str, used: dict[_Text, _Names]) -> None:
        """A file was lowered and is made of these functions."""
        before = self._used.get(path, {})
        gone = self._gone.setdefault(path, deque())
        gone.append({text: names for text, names in before.items() if text not in used})
        self._used[path] = used
        if len(gone) > _GENERATIONS:
            self._drop(gone.popleft(), used)

    def forget(self, path: str) -> None:
        """The file is gone."""
        for generation in (*self._gone.pop(path, ()), self._used.pop(path, {})):
            self._drop(generation, {})
        self.tables.pop(path, None)
        self.syntax.pop(path, None)
        self._unchanged &= path != self.looked_at

    def _drop(self, functions: dict[_Text, _Names], used: dict[_Text, _Names]) -> None:
        needed = set(used.values()) if functions else set()
        for text, names in functions.items():
            if text not in used:
                self.by_text.pop(text, None)
            if names not in needed:  # the same function in another file is lowered again when that file changes
                self.by_names.pop(names, None)


Shell = tuple[str, str, Node | None, Node | None]  # name, scope before it, name node, function declarator


def shell_of(cx: Context, item: FunctionItem) -> Shell:
    """Name, scope, name node and parameter-carrying declarator of a function."""
    if item.expansion is not None:
        cx = Context(item.expansion.text, 0, cx.env, cx.tally)
    what = declared(cx, item.declarator, VOID)
    node, function = what.name, what.function
    if node is None:
        return "", "", None, function
    scopes: list[str] = []
    while node is not None and node.kind_id == g.QUALIFIED:
        scope = node.child_by_field_id(g.F_SCOPE)
        if scope is not None:
            scopes.append(scope_name(cx, scope))
        node = node.child_by_field_id(g.F_NAME)
    if node is None:
        return "", "::".join(scopes), None, function
    if node.kind_id == g.OPERATOR_CAST:
        typed = node.child_by_field_id(g.F_TYPE)
        target = cx.read(typed) if typed is not None else ""
        pointers = node.child_by_field_id(g.F_DECLARATOR)
        while pointers is not None and pointers.kind_id in (g.ABSTRACT_POINTER, g.ABSTRACT_REFERENCE):
            target += "*" if pointers.kind_id == g.ABSTRACT_POINTER else "&"
            pointers = next((c for c in pointers.named_children if c.kind_id in g.DECLARATORS), None)
        return f"operator {target}", "::".join(scopes), node, pointers
    if node.kind_id == g.TEMPLATE_FUNCTION:
        inner = node.child_by_field_id(g.F_NAME)
        node = inner if inner is not None else node
    return "".join(cx.read(node).split()), "::".join(scopes), node, function


_WORD = re.compile(rb"[A-Za-z_]\w*")


class FunctionLowering:
    """The functions of one file."""

    def __init__(self, path: str, syntax: Syntax, environment: Environment, cache: LoweringCache) -> None:
        self.syntax = syntax
        self.environment = environment
        self.cache = cache
        self.stamps: dict[bytes, bytes] = {}  # what a name means, for the names asked for
        self.path = path
        self.used: dict[_Text, _Names] = {}
        self.table = cache.table_id(path, environment)
        self.space_macros = [
            (name.encode(), macro.body)
            for name, macro in environment.macros.items()
            if "__" in macro.body and _SPACE.search(macro.body)
        ]

    def function(self, item: FunctionItem, shell: Shell) -> Lowered:
        text = self.syntax.text[item.start : item.end]
        if item.expansion is not None:
            text += b"\0" + item.expansion.text
        if item.node.kind_id != g.FUNCTION_DEFINITION:  # `void f(), g();`: one text, two functions
            text += b"\0%d" % (item.declarator.start_byte - item.node.start_byte)
        elif item.expansion is not None:
            text += b"\0%d" % item.node.start_byte
        text += b"\0" + self.blanked_before(item)
        digest = blake2b(text, digest_size=16).digest()
        broken = item.node.has_error
        cache = self.cache
        quick = (digest, self.table, broken)
        hit = cache.by_text.get(quick)
        if hit is not None:
            self.used[quick] = hit[1]
            return hit[0]
        names = self.names_digest(text)
        slow = (digest, names, broken)
        known = cache.by_names.get(slow)
        if known is None:
            cache.misses += 1
            stamp = f"{digest.hex()}.{names.hex()}"
            try:
                known = self.lower(item, shell, stamp)
            except RecursionError:  # called from deep inside somebody's own recursion, or syntax nested without end
                known = self.unknown(item, shell, stamp)
            cache.by_names[slow] = known
        cache.by_text[quick] = known, slow
        self.used[quick] = slow
        return known

    def done(self) -> None:
        """All functions of the file were asked for."""
        self.cache.lowered(self.path, self.used)

    def names_digest(self, text: bytes) -> bytes:
        """What the names of a text that are macros, classes or functions of the file spelled like CUDA's mean."""
        stamped: list[bytes] = []
        for name in set(_WORD.findall(text)):
            stamp = self.stamps.get(name)
            if stamp is None:
                stamp = self.stamps[name] = _stamp(name.decode(), self.environment)
            if stamp:
                stamped.append(name + b"\0" + stamp + b"\0")
        total = blake2b(digest_size=16)
        for each in sorted(stamped):
            total.update(each)
        return total.digest()

    def lower(self, item: FunctionItem, shell: Shell, digest: str) -> Lowered:
        name, scope, name_node, function = shell
        node = item.node
        tally = Tally()
        cx = Context(self.syntax.text, item.start, self.environment, tally)
        before = self.blanked_before(item)
        if item.expansion is not None:
            made = item.expansion
            fixed = (0, item.end - item.start)
            cx = Context(made.text, 0, self.environment, tally, fixed=fixed, segments=made.segments, outer=cx)
            before = b""
        name_span = cx.span(name_node) if name_node is not None else (0, 0)
        header_start = item.node.start_byte if item.expansion is not None else item.start
        header_text = cx.text
        spec = specifiers(cx, node)
        base = spec.type if node.child_by_field_id(g.F_TYPE) is not None else VOID  # constructors have no type
        returns = declared(cx, item.declarator, base).type
        parameters: tuple[Param, ...] = ()
        if function is not None:
            listed = function.child_by_field_id(g.F_PARAMETERS)
            if listed is not None:
                parameters = params(cx, listed)
            trailing = next((c for c in function.named_children if c.kind_id == _TRAILING), None)
            if trailing is not None and trailing.named_children:
                returns = described_type(cx, trailing.named_children[0])
        if name.startswith("operator ") and name_node is not None:
            typed = name_node.child_by_field_id(g.F_TYPE)
            if typed is not None:
                returns = replace(base_type(cx, typed), pointer=name.count("*"))
        bounds: tuple[Expr, ...] = ()
        initializers: list[tuple[str, Expr]] = []
        body: Block | None = None
        for child in node.named_children:
            if child.kind_id == g.LAUNCH_BOUNDS:
                bounds = tuple(cx.expr(c) for c in child.named_children if c.kind_id != g.COMMENT)
            elif child.kind_id == _INITIALIZERS:
                initializers.extend(_initializers(cx, child))
        body_node = node.child_by_field_id(g.F_BODY)
        header_end = body_node.start_byte if body_node is not None else node.end_byte
        if body_node is None and node.kind_id == g.FUNCTION_DEFINITION:
            body_node = next(
                (c for c in node.named_children if c.type in ("compound_statement", "try_statement")), None
            )
        has_error = node.has_error
        if body_node is not None:
            if has_error:
                cx, body_node, has_error = _repaired(cx, body_node)
            if body_node.kind_id == g.COMPOUND:
                body = block(cx, body_node)
            else:
                whole: Stmt = one(cx, body_node)
                body = Block(cx.span(body_node), (whole,))
        inner = [local_types(*each) for each in tally.local_types[:_MAX_LOCAL_TYPES]]
        tally.local_types.clear()  # contexts, which hold the tally
        own = tally.locals | {p.name for p in parameters}
        objects = {"operator()"} if tally.called & own else set()  # a variable that is called may be an object
        return Lowered(
            name=name,
            scope=scope,
            name_span=name_span,
            params=parameters,
            returns=returns,
            body=body,
            space=self.space(before + header_text[header_start:header_end]),
            static=spec.static,
            initializers=tuple(initializers),
            launch_bounds=bounds,
            cuda_calls=tally.cuda_calls,
            has_error=has_error,
            digest=digest,
            mentions=frozenset(tally.called | objects | (tally.used - own)),
            records=tuple(r for each in inner for r in each.records),
            aliases=tuple(a for each in inner for a in each.aliases),
            constants=tuple(c for each in inner for c in each.constants),
        )

    def unknown(self, item: FunctionItem, shell: Shell, stamp: str) -> Lowered:
        """A function whose syntax cannot be lowered: one unknown statement."""
        span = (0, item.end - item.start)
        body = Block(span, (Evaluate(span, Opaque(span, "nested too deeply")),))
        mentions: frozenset[str] = frozenset()
        return Lowered(shell[0], shell[1], (0, 0), (), VOID, body, "host", False, (), (), 0, True, stamp, mentions)

    def blanked_before(self, item: FunctionItem) -> bytes:
        """Attribute macros in front of a function that the mask took out of its syntax."""
        if not self.syntax.masked:
            return b""
        before = self.syntax.text[max(0, item.start - 160) : item.start]
        return _BEFORE_FUNCTION.search(before).group(0)  # type: ignore[union-attr]

    def space(self, header: bytes) -> str:
        words = {m.group(0) for m in _SPACE_BYTES.finditer(header)}
        for name, body in self.space_macros:
            if name in header:
                words.update(m.group(0).encode() for m in _SPACE.finditer(body))
        if b"__global__" in words:
            return "global"
        if b"__device__" in words:
            return "host_device" if b"__host__" in words else "device"
        return "host"


def _repaired(cx: Context, body: Node) -> tuple[Context, Node, bool]:
    """A function body that did not parse, parsed again with its macros expanded when that has fewer errors."""
    expanded = expand_text(cx, body.start_byte, body.end_byte)
    if expanded is None:
        return cx, body, True
    head = b"void f()"
    text, segments = expanded
    syntax = parse_cuda(head + text)
    better = next((c for c in syntax.root.named_children if c.kind_id == g.FUNCTION_DEFINITION), None)
    node = better.child_by_field_id(g.F_BODY) if better is not None else None
    if better is None or node is None or node.end_byte < len(head) + len(text.rstrip()):
        return cx, body, True
    if error_bytes(better) >= error_bytes(body):
        return cx, body, True
    moved = tuple(Segment(s.start + len(head), s.end + len(head), s.origin, s.origin_end, s.exact) for s in segments)
    inner = Context(syntax.text, 0, cx.env, cx.tally, fixed=cx.span(body), segments=moved, outer=cx)
    return inner, node, better.has_error


_BEFORE_FUNCTION = re.compile(rb"(?:\b[A-Za-z_]\w*[ \t\r\n]+)*\Z")
_SPACE = re.compile(r"\b__(?:global|device|host)__\b")
_SPACE_BYTES = re.compile(rb"\b__(?:global|device|host)__\b")


def _initializers(cx: Context, node: Node) -> list[tuple[str, Expr]]:
    """Constructor initialisers: the one argument, or a `Construct` of the member's own (here unnamed) type, or a list in braces."""
    found: list[tuple[str, Expr]] = []
    for child in node.named_children:
        if child.kind_id != _INITIALIZER or not child.named_children:
            continue
        target = child.named_children[0]
        given = child.named_children[-1]
        args = arguments(cx, given) if given.kind_id in (g.ARGUMENT_LIST, g.INITIALIZER_LIST) else ()
        name = base_type(cx, target).name
        if len(args) > 1 and given.kind_id == g.INITIALIZER_LIST:
            found.append((name, InitList(cx.span(given), args)))
            continue
        value = args[0] if len(args) == 1 else Construct(cx.span(given), TypeRef(""), args)
        found.append((name, value))
    return found


def _stamp(name: str, environment: Environment) -> bytes:
    """What a name means, as far as lowering depends on it; empty for ordinary names."""
    macro = environment.macros.get(name)
    if macro is not None:
        return _closure(macro, environment.macros)
    if name in environment.records:
        return b"record"
    if name in environment.functions and (api.lookup(name, 1) is not None or api.looks_like_cuda(name)):
        return b"function"
    return b""


def _closure(macro: MacroDef, macros: Mapping[str, MacroDef]) -> bytes:
    """The macro's definition and those of the macros its body names, a few levels down."""
    seen: dict[str, MacroDef] = {macro.name: macro}
    queue = [macro]
    while queue and len(seen) < 64:
        current = queue.pop()
        for word in _WORD.findall(current.body.encode()):
            inner = macros.get(word.decode())
            if inner is not None and inner.name not in seen:
                seen[inner.name] = inner
                queue.append(inner)
    return "\0".join(f"{m.name}{m.params}{m.body}" for m in seen.values()).encode()
