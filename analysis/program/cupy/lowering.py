"""What the parts of the lowering share: the function being lowered, its temporaries, and small makers of IR nodes."""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.analysis.program.cupy.inference import Inference
from stitchcuda.analysis.program.cupy.kinds import MEMORY, UNKNOWN, Kind, Scope, element_of, self_name
from stitchcuda.analysis.program.ir import (
    Api,
    ApiKind,
    Binary,
    Call,
    Cast,
    Const,
    Declare,
    Deref,
    Expr,
    Member,
    Name,
    Opaque,
    Span,
    TypeRef,
)
from stitchcuda.analysis.syntax.python import text_of
from tree_sitter import Node

ELEMENT_TYPES = {"stream": TypeRef("cudaStream_t"), "event": TypeRef("cudaEvent_t")}
STATIC = frozenset({"kernel", "module", "snippet", "source"})  # kinds that are resolved here and have no variable
RETURNS = frozenset({"returns"})
SAYS_DONE = frozenset({"says-done"})


def type_of(kind: Kind) -> TypeRef:
    """The IR type of a variable of a kind."""
    if kind.what in ELEMENT_TYPES:
        return ELEMENT_TYPES[kind.what]
    if kind.what in MEMORY:
        return TypeRef(kind.detail or "void", pointer=1)
    if kind.what == "list":
        element = ELEMENT_TYPES.get(kind.detail)
        if kind.detail in MEMORY:
            element = TypeRef("void", pointer=1)
        if (one := element_of(kind)).what == "instance" and one.detail:
            element = TypeRef(one.detail)
        return TypeRef("std::vector", (element or TypeRef("auto"),)) if kind.detail else TypeRef("auto")
    if kind.what == "thread":
        return TypeRef("std::thread")
    if kind.what == "instance" and kind.detail:
        return TypeRef(kind.detail)
    return TypeRef("auto")


class Lowering:
    """State of one function: spans are relative to its first byte."""

    def __init__(self, inference: Inference, scope: Scope, base: int) -> None:
        self.inference = inference
        self.scope = scope
        self.base = base
        self.temporaries: list[Declare] = []
        self.cuda_calls = 0
        self.mentions: set[str] = set()
        self.self_name = self_name(scope.node) if scope.owner else ""
        torch = inference.file.torch
        self.library = "torch" if torch else "cupy"
        self.array_type = "torch.Tensor" if torch else "cupy.ndarray"
        self.download = "torch.Tensor.item" if torch else "cupy.ndarray.get"

    def span(self, node: Node) -> Span:
        return node.start_byte - self.base, node.end_byte - self.base

    def kind(self, node: Node | None) -> Kind:
        return UNKNOWN if node is None else self.inference.kind(node, self.scope)

    def temporary(self, node: Node, type: TypeRef) -> Name:
        """A variable that the program has no name for."""
        name = f"${len(self.temporaries) + 1}"
        self.temporaries.append(Declare(self.span(node), name, type))
        return Name(self.span(node), name)

    def api(
        self,
        node: Node,
        name: str,
        kind: ApiKind,
        roles: Sequence[tuple[str, Expr | None]] = (),
        flags: frozenset[str] = frozenset(),
        hint: str = "",
    ) -> Api:
        if kind is not ApiKind.NEUTRAL:
            self.cuda_calls += 1
        given = [(role, value) for role, value in roles if value is not None]
        span = self.span(node)
        if hint and "returns" in flags:
            given.append(("name", Const(span, hint)))
        function = node.child_by_field_name("function") or node
        return Api(span, name, kind, tuple(given), flags, self.span(function))

    def opaque(self, node: Node, what: str, children: Sequence[Expr] = ()) -> Opaque:
        return Opaque(self.span(node), what, tuple(children))

    def sequence(self, node: Node, parts: Sequence[Expr]) -> Expr:
        """Evaluates all, in order; the value is the last one's."""
        result = parts[0]
        for part in parts[1:]:
            result = Binary(self.span(node), ",", result, part)
        return result

    def this(self, node: Node) -> Expr:
        return Deref(self.span(node), Name(self.span(node), "this"))

    def current_stream(self, node: Node) -> Api:
        """The stream that is current, as a value; asking is not an operation."""
        return Api(self.span(node), "cupy.cuda.get_current_stream", ApiKind.SET_STREAM, (), frozenset({"current"}))

    def typed(self, node: Node, value: Expr, kind: Kind) -> Expr:
        """An array with its element type, so that offsets have a size."""
        if kind.what in MEMORY and kind.detail and isinstance(value, Api | Call):
            return Cast(self.span(node), TypeRef(kind.detail, pointer=1), value)
        return value

    def member(self, node: Node, base: Expr, name: str) -> Member:
        return Member(self.span(node), base, name)

    def assigned_once(self, name: str) -> Node | None:
        """The value of the only assignment to a name in this function or the module, if there is just one."""
        for scope in (self.scope, self.inference.file.module):
            if scope is None:
                continue
            found = [
                right
                for node in scope.nodes()
                if node.type == "assignment"
                and (left := node.child_by_field_name("left")) is not None
                and (right := node.child_by_field_name("right")) is not None
                and left.type == "identifier"
                and text_of(left) == name
            ]
            if found:
                return found[0] if len(found) == 1 else None
        return None
