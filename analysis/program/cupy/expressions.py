"""Python expressions to IR. An array's value is a pointer to its memory; operators on arrays are library calls."""

from __future__ import annotations

from abc import ABC, abstractmethod

from stitchcuda.analysis.program.cupy import table
from stitchcuda.analysis.program.cupy.kinds import MEMORY, Kind
from stitchcuda.analysis.program.cupy.lowering import RETURNS, SAYS_DONE, Lowering
from stitchcuda.analysis.program.ir import (
    ApiKind,
    Assign,
    Binary,
    Call,
    Conditional,
    Const,
    Expr,
    Index,
    InitList,
    Name,
    Unary,
)
from stitchcuda.analysis.syntax.python import text_of
from tree_sitter import Node

OPERATORS = {"//": "/", "+": "+", "-": "-", "*": "*", "%": "%", "<<": "<<", ">>": ">>", "&": "&", "|": "|", "^": "^"}
UFUNCS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "true_divide",
    "//": "floor_divide",
    "%": "remainder",
    "**": "power",
    "@": "matmul",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "<<": "left_shift",
    ">>": "right_shift",
    "~": "invert",
}
COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


class Expressions(Lowering, ABC):
    @abstractmethod
    def call(self, node: Node, hint: str) -> Expr: ...

    def expr(self, node: Node, hint: str = "") -> Expr:
        """The value of an expression. `hint` is the name that it gets, for messages."""
        span = self.span(node)
        match node.type:
            case "identifier":
                return self._identifier(node)
            case "integer":
                whole = _integer(text_of(node))
                return Const(span, whole) if whole is not None else self.opaque(node, "number")
            case "float":
                real = _float(text_of(node))
                return Const(span, real) if real is not None else self.opaque(node, "number")
            case "true" | "false":
                return Const(span, node.type == "true")
            case "none":
                return Const(span, None)
            case "string" | "concatenated_string":
                return self._string(node)
            case "parenthesized_expression" | "await":
                return self.expr(node.named_children[-1], hint) if node.named_children else self.opaque(node, node.type)
            case "attribute":
                return self._attribute(node)
            case "subscript":
                return self._subscript(node)
            case "call":
                return self.call(node, hint)
            case "binary_operator":
                return self._operator(node, hint)
            case "unary_operator":
                return self._unary(node, hint)
            case "not_operator":
                return Unary(span, "!", self.consume(node.named_children[0]))
            case "boolean_operator":
                left, right = node.named_children[0], node.named_children[-1]
                op = "&&" if any(c.type == "and" for c in node.children) else "||"
                return Binary(span, op, self.consume(left), self.consume(right))
            case "comparison_operator":
                return self._comparison(node, hint)
            case "conditional_expression" if len(node.named_children) == 3:
                then, test, otherwise = node.named_children
                return Conditional(span, self.consume(test), self.expr(then, hint), self.expr(otherwise, hint))
            case "tuple" | "list" | "expression_list":
                return InitList(span, tuple(self.expr(c) for c in node.named_children if c.type != "comment"))
            case "named_expression" if len(node.named_children) == 2:
                return self.expr(node.named_children[1], hint)
            case "list_splat" | "keyword_argument" | "pair":
                return self.expr(node.named_children[-1])
            case "lambda" | "list_comprehension" | "generator_expression" | "dictionary_comprehension":
                return self.opaque(node, node.type)
        return self.opaque(node, node.type, [self.consume(c) for c in node.named_children if _is_expression(c)])

    def consume(self, node: Node) -> Expr:
        """The value of an expression whose elements the host looks at: pinned memory is read, and an array on the device
        is downloaded first, for which the host waits."""
        kind = self.kind(node)
        if kind.what == "array":
            source = self.expr(node)
            return self.api(node, self.download, ApiKind.COPY, [("src", source)], RETURNS | {"d2h"}, "a host copy")
        if kind.what in ("pinned", "host") and node.type in ("identifier", "attribute", "subscript"):
            return self._host_element(node)
        return self.expr(node)

    def _host_element(self, node: Node) -> Expr:
        base = node.child_by_field_name("value") if node.type == "subscript" else None
        one = self._one_element(node, base)
        return one if one is not None else self.elements(node, self.expr(node))

    def write_part(self, node: Node, base: Node, value: Expr) -> Expr:
        """`memory[...] = value` on the host."""
        one = self._one_element(node, base)
        if one is not None:
            return Assign(self.span(node), one, value)
        return self.write_elements(node, self.expr(node), value)

    def _one_element(self, node: Node, base: Node | None) -> Expr | None:
        """`memory[i]` of a one-dimensional array."""
        given = [c for c in node.children_by_field_name("subscript") if c.is_named]
        if base is None or len(given) != 1 or self.kind(base).dimensions != 1:
            return None
        if given[0].type in ("slice", "ellipsis", "unary_operator", "tuple") or self.kind(given[0]).what in MEMORY:
            return None
        return Index(self.span(node), self.expr(base), self.expr(given[0]))

    def element(self, node: Node, memory: Expr) -> Expr:
        """Some element of host memory."""
        return Index(self.span(node), memory, self.opaque(node, "any index"))

    def elements(self, node: Node, memory: Expr) -> Expr:
        """All elements of host memory are read."""
        return Call(self.span(node), Name(self.span(node), "numpy_read"), (memory,))

    def write_elements(self, node: Node, memory: Expr, value: Expr) -> Expr:
        """All elements of host memory get new values."""
        return self.sequence(node, [value, Call(self.span(node), Name(self.span(node), "numpy_write"), (memory,))])

    # -------------------------------------------------------------------------------------------------------- leaves

    def _identifier(self, node: Node) -> Expr:
        name = text_of(node)
        kind = self.kind(node)
        if kind.what == "kernel" and kind.detail:
            return Name(self.span(node), kernel_name(kind.detail))
        if self.self_name and name == self.self_name:
            return self.this(node)
        return Name(self.span(node), name)

    def _string(self, node: Node) -> Expr:
        parts: list[Expr] = []
        stack = list(node.named_children)
        while stack:
            child = stack.pop(0)
            if child.type == "interpolation":
                parts += [self.consume(c) for c in child.named_children if _is_expression(c)]
            elif child.type == "string":
                stack = list(child.named_children) + stack
        if parts:
            return self.opaque(node, "text", parts)
        return Const(self.span(node), text_of(node))

    def _attribute(self, node: Node) -> Expr:
        canonical = self.inference.canonical(node)
        span = self.span(node)
        if canonical is not None:
            if canonical.endswith("Stream.null"):
                return Const(span, 0)
            if canonical.endswith("Stream.ptds"):
                return Name(span, "cudaStreamPerThread")
            return self.opaque(node, canonical)
        base = node.child_by_field_name("object")
        name = text_of(node.child_by_field_name("attribute") or node)
        if base is None:
            return self.opaque(node, "attribute")
        kind = self.kind(base)
        if kind.what in MEMORY and (name in table.VIEWS or name in ("data", "ptr", "ctypes", "base")):
            return self.expr(base)
        if kind.what in MEMORY and name in table.FACTS:
            return self.opaque(node, name)
        if kind.what in ("stream", "event") and name == "ptr":
            return self.expr(base)
        if kind.what in ("stream", "event") and name == "done":
            of = [(kind.what, self.expr(base))]
            return self.api(node, f"cupy.cuda.{kind.what.title()}.done", ApiKind.QUERY, of, SAYS_DONE)
        if self.self_name and base.type == "identifier" and text_of(base) == self.self_name:
            return self.member(node, self.this(base), name)
        if kind.what == "instance":
            return self.member(node, self.expr(base), name)
        if name in ("ptr", "data", "ctypes"):
            return self.expr(base)  # `x.data.ptr` of something that is not known
        return self.opaque(node, name, [self.expr(base)])

    # ---------------------------------------------------------------------------------------------------- subscripts

    def _subscript(self, node: Node) -> Expr:
        base = node.child_by_field_name("value")
        given = [c for c in node.children_by_field_name("subscript") if c.is_named]
        if base is None or not given:
            return self.opaque(node, "subscript")
        kind = self.kind(base)
        if kind.what in MEMORY:
            return self._part(node, base, given, kind)
        value = self.expr(base)
        if len(given) == 1 and given[0].type != "slice":
            return Index(self.span(node), value, self.expr(given[0]))
        return self.opaque(node, "slice", [value])

    def _part(self, node: Node, base: Node, given: list[Node], kind: Kind) -> Expr:
        """A part of an array: the same memory further on. Only of a one-dimensional array is it known how far."""
        memory = self.expr(base)
        first = given[0]
        if all(c.type == "ellipsis" or text_of(c) == ":" for c in given):
            return memory
        if len(given) == 1 and kind.dimensions == 1:
            start = first if first.type != "slice" else slice_bounds(first)[0]
            if start is None:
                return memory
            if self.kind(start).what == "plain" and start.type != "unary_operator":
                return Binary(self.span(node), "+", memory, self.expr(start))
        inner = [self.expr(c) for c in given if c.type not in ("slice", "ellipsis")]
        return Binary(self.span(node), "+", memory, self.opaque(node, "any index", inner))

    def extent(self, node: Node) -> Expr | None:
        """Bytes of a slice with both ends written, of a one-dimensional array of a known element type."""
        if node.type != "subscript":
            return None
        kind = self.kind(node.child_by_field_name("value"))
        given = [c for c in node.children_by_field_name("subscript") if c.is_named]
        size = table.SIZES.get(kind.detail)
        if size is None or kind.dimensions != 1 or len(given) != 1 or given[0].type != "slice":
            return None
        start, stop = slice_bounds(given[0])
        if stop is None or stop.type == "unary_operator" or given[0].child_count > 3:
            return None
        span = self.span(node)
        length = self.expr(stop) if start is None else Binary(span, "-", self.expr(stop), self.expr(start))
        return Binary(span, "*", length, Const(span, size))

    # ----------------------------------------------------------------------------------------------------- operators

    def _operator(self, node: Node, hint: str) -> Expr:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None or operator is None:
            return self.opaque(node, "operator")
        op = text_of(operator)
        if "array" in (self.kind(left).what, self.kind(right).what):
            return self.elementwise(node, UFUNCS.get(op, op), [left, right], hint)
        if self.kind(node).what == "host":
            return self.opaque(node, op, [self.consume(left), self.consume(right)])
        a, b = self.expr(left), self.expr(right)
        if op == "**" and isinstance(a, Const) and isinstance(b, Const):
            power = _power(a.value, b.value)
            return Const(self.span(node), power) if power is not None else self.opaque(node, op, [a, b])
        if op in OPERATORS:
            return Binary(self.span(node), OPERATORS[op], a, b)
        return self.opaque(node, op, [a, b])

    def _unary(self, node: Node, hint: str) -> Expr:
        operand = node.child_by_field_name("argument") or node.named_children[-1]
        op = text_of(node)[:1]
        if self.kind(operand).what == "array":
            return self.elementwise(node, {"-": "negative", "~": "invert"}.get(op, "positive"), [operand], hint)
        value = self.consume(operand)
        if op == "-" and isinstance(value, Const) and isinstance(value.value, int):
            return Const(self.span(node), -value.value)
        return Unary(self.span(node), op, value)

    def _comparison(self, node: Node, hint: str) -> Expr:
        operands = node.named_children
        operators = [text_of(c) for c in node.children if not c.is_named or c.type in ("is not", "not in")]
        if any(self.kind(c).what == "array" for c in operands) and all(o in COMPARISONS for o in operators):
            return self.elementwise(node, UFUNCS[operators[0]], operands, hint)
        if not all(o in COMPARISONS for o in operators) or len(operators) != len(operands) - 1:
            return self.opaque(node, "comparison", [self.expr(c) for c in operands])
        values = [self.consume(c) for c in operands]
        parts = [Binary(self.span(node), op, values[k], values[k + 1]) for k, op in enumerate(operators)]
        result: Expr = parts[0]
        for part in parts[1:]:
            result = Binary(self.span(node), "&&", result, part)
        return result

    def elementwise(self, node: Node, ufunc: str, operands: list[Node], hint: str) -> Expr:
        """A library call on the current stream that reads the operands and gives a new array."""
        roles = self.sources(operands)
        return self.api(node, f"{self.library}.{ufunc}", ApiKind.LIBRARY_CALL, roles, RETURNS, hint)

    def sources(self, operands: list[Node]) -> list[tuple[str, Expr | None]]:
        """Operands by role: arrays are read, everything else only evaluated."""
        roles: list[tuple[str, Expr | None]] = []
        count = 0
        for position, operand in enumerate(operands):
            if self.kind(operand).what == "array":
                roles.append((f"src{count}" if count else "src", self.expr(operand)))
                count += 1
            elif self.kind(operand).what not in MEMORY:
                roles.append((f"arg{position}", self.expr(operand)))
        return roles


def kernel_name(detail: str) -> str:
    return detail.split("<")[0].strip()


def slice_bounds(node: Node) -> tuple[Node | None, Node | None]:
    """Start and stop of `a:b`."""
    start: Node | None = None
    stop: Node | None = None
    colons = 0
    for child in node.children:
        if child.type == ":":
            colons += 1
        elif child.is_named and colons == 0:
            start = child
        elif child.is_named and colons == 1:
            stop = child
    return start, stop


def _is_expression(node: Node) -> bool:
    return node.type not in ("comment", "string_content", "string_start", "string_end", "format_specifier", "type")


def _power(base: object, exponent: object) -> int | None:
    if isinstance(base, int) and isinstance(exponent, int) and 0 <= exponent < 64:
        return _followed(int(base**exponent))
    return None


def _integer(text: str) -> int | None:
    try:
        return _followed(int(text.replace("_", ""), 0))
    except ValueError:
        return None


def _followed(value: int) -> int | None:
    """A number, unless it is one of thousands of digits, as `9**63**2` is."""
    return value if value.bit_length() < 128 else None


def _float(text: str) -> float | None:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        return None
