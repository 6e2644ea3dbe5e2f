"""What lowering one piece of text needs to know: whose bytes, where spans go, which macros are visible, how deep we are.

A piece is a function's own text, the expansion of a macro (spans then map to the invocation, or through `segments` to
the arguments it was made of), or the parsed body of a macro whose parameters are bound to argument nodes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from stitchcuda.analysis.program.ir import Evaluate, Expr, Opaque, Span, Stmt
from tree_sitter import Node

if TYPE_CHECKING:
    from stitchcuda.analysis.program.cuda.macro_bodies import MacroDef

# Nesting of expressions and statements that is lowered; deeper syntax is Opaque. Three interpreter frames a level must
# stay well below Python's recursion limit.
MAX_DEPTH = 150
# Bytes of macro text one function may expand to.
EXPANSION_BUDGET = 400_000

ExprHandler: TypeAlias = "Callable[[Context, Node], Expr]"
StmtHandler: TypeAlias = "Callable[[Context, Node, list[Stmt]], None]"

_start = attrgetter("start")

# Filled by `dispatch.py`, by node kind.
EXPRESSIONS: dict[int, ExprHandler] = {}
STATEMENTS: dict[int, StmtHandler] = {}


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes [start, end) of an expansion come from [origin, origin_end) in the text around it: byte for byte when
    `exact`, else as a whole (macro text, which has no other place than the invocation)."""

    start: int
    end: int
    origin: int
    origin_end: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Environment:
    """The names a function's lowering may depend on besides its own text."""

    macros: Mapping[str, MacroDef] = field(default_factory=dict)
    functions: frozenset[str] = frozenset()  # defined or declared in this file, of those spelled like CUDA's
    records: frozenset[str] = frozenset()  # unqualified names of this file's classes


@dataclass(slots=True)
class Tally:
    """Counted over a whole function, expansions included."""

    depth: int = 0
    cuda_calls: int = 0
    expanded: int = 0
    opaque: int = 0
    called: set[str] = field(default_factory=set)  # names in call position, and types constructed
    used: set[str] = field(default_factory=set)  # names used as values
    locals: set[str] = field(default_factory=set)
    local_types: list[tuple[Context, Node]] = field(default_factory=list)  # types declared inside the function


class Context:
    """Passed to every lowering function."""

    __slots__ = ("active", "base", "binder", "bindings", "env", "fixed", "outer", "segments", "tally", "text")

    def __init__(
        self,
        text: bytes,
        base: int,
        env: Environment,
        tally: Tally,
        *,
        fixed: Span | None = None,
        segments: tuple[Segment, ...] | None = None,
        outer: Context | None = None,
        bindings: Mapping[str, tuple[Node, ...]] | None = None,
        binder: Context | None = None,
        active: frozenset[str] = frozenset(),
    ) -> None:
        self.text = text
        self.base = base
        self.env = env
        self.tally = tally
        self.fixed = fixed  # every span is this one, unless a segment says better
        self.segments = segments
        self.outer = outer  # the piece that segments map to
        self.bindings = bindings  # macro parameter -> argument nodes in `binder`
        self.binder = binder
        self.active = active  # macros being expanded

    def span(self, node: Node) -> Span:
        if self.fixed is None:
            return (node.start_byte - self.base, node.end_byte - self.base)
        if self.segments is None:
            return self.fixed
        return self.map(node.start_byte, node.end_byte)

    def map(self, start: int, end: int) -> Span:
        """The span of some bytes of this piece, in the function's coordinates."""
        if self.fixed is None:
            return (start - self.base, end - self.base)
        if self.segments is None or self.outer is None:
            return self.fixed
        first = self._segment(start)
        last = self._segment(max(start, end - 1))
        if first is None or last is None:
            return self.fixed
        low = start + first.origin - first.start if first.exact else first.origin
        high = end + last.origin - last.start if last.exact else last.origin_end
        return self.outer.map(low, high) if low <= high else self.fixed

    def _segment(self, at: int) -> Segment | None:
        segments = self.segments or ()
        index = bisect_right(segments, at, key=_start) - 1
        return segments[index] if index >= 0 and at < segments[index].end else None

    def read(self, node: Node) -> str:
        return self.text[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def expr(self, node: Node) -> Expr:
        tally = self.tally
        handler = EXPRESSIONS.get(node.kind_id)
        if handler is None:
            return self.opaque(node, node.type)
        if tally.depth >= MAX_DEPTH:
            return self.opaque(node, "nested too deeply", descend=False)
        tally.depth += 1
        result = handler(self, node)
        tally.depth -= 1
        return result

    def stmt(self, node: Node, out: list[Stmt]) -> None:
        """Lower a statement and append what it becomes."""
        tally = self.tally
        if tally.depth >= MAX_DEPTH:
            out.append(self.evaluate(node, self.opaque(node, "nested too deeply", descend=False)))
            return
        handler = STATEMENTS.get(node.kind_id)
        if handler is None:
            if node.is_named and node.kind_id in EXPRESSIONS:
                out.append(self.evaluate(node, self.expr(node)))
            elif node.is_named and not node.is_extra:
                out.append(self.evaluate(node, self.opaque(node, node.type)))
            return
        tally.depth += 1
        handler(self, node, out)
        tally.depth -= 1

    def evaluate(self, node: Node, expr: Expr) -> Stmt:
        return Evaluate(self.span(node), expr)

    def opaque(self, node: Node, what: str, *, descend: bool = True) -> Opaque:
        """Syntax without a meaning here. Calls inside are kept as children, so that no device work is dropped."""
        self.tally.opaque += 1
        found: list[Expr] = []
        if descend:
            stack = list(reversed(node.children))
            while stack:
                child = stack.pop()
                if child.kind_id in EXPRESSIONS:
                    if child.named_child_count:
                        found.append(self.expr(child))
                elif child.child_count:
                    stack.extend(reversed(child.children))
        return Opaque(self.span(node), what, tuple(found))
