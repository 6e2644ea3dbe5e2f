"""Functions of CuPy and of the host libraries beside it, by the table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from stitchcuda.analysis.program import api as cuda_api
from stitchcuda.analysis.program.cupy import table
from stitchcuda.analysis.program.cupy.kinds import MEMORY, arguments_of
from stitchcuda.analysis.program.cupy.lowering import RETURNS
from stitchcuda.analysis.program.cupy.torch import Torch
from stitchcuda.analysis.program.ir import (
    ApiKind,
    Binary,
    Call,
    Cast,
    Const,
    Construct,
    Expr,
    Name,
    New,
    TypeRef,
)
from stitchcuda.analysis.syntax.python import text_of
from tree_sitter import Node

ASYNC = frozenset({"async"})
INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "intp", "uintp"})


class Library(Torch, ABC):
    @abstractmethod
    def _unknown(self, node: Node, callee: Expr, positional: Sequence[Node], named: Mapping[str, Node]) -> Expr: ...

    def _library(self, node: Node, name: str, positional: list[Node], named: dict[str, Node], hint: str) -> Expr:
        span = self.span(node)
        if name.startswith("torch."):
            return self._torch(node, name, positional, named, hint)
        if name in table.STREAMS:
            flags = flag(positional[1] if len(positional) > 1 else named.get("non_blocking"), 1)
            if positional and positional[0].type == "true" or is_true(named.get("null")):
                return Const(span, 0)
            if flags is None:
                return self.api(
                    node, name, ApiKind.STREAM_CREATE, [("flags", self.opaque(node, "flags"))], RETURNS, hint
                )
            return self.api(node, name, ApiKind.STREAM_CREATE, [("flags", Const(span, flags))], RETURNS, hint)
        if name in table.EVENTS:
            timing = flag(positional[1] if len(positional) > 1 else named.get("disable_timing"), 2)
            choice: Expr = self.opaque(node, "flags") if timing is None else Const(span, timing)
            return self.api(node, name, ApiKind.EVENT_CREATE, [("flags", choice)], RETURNS, hint)
        if name in table.CURRENT_STREAM:
            return self.current_stream(node)
        if name == "cupy.cuda.get_elapsed_time" and len(positional) == 2:
            roles = [("event", self.expr(positional[0])), ("end_event", self.expr(positional[1]))]
            return self.api(node, name, ApiKind.ELAPSED_TIME, roles, RETURNS)
        if name in table.DEVICE_SYNC:
            return self.api(node, name, ApiKind.DEVICE_SYNC)
        if name in table.UPLOADS:
            return self._upload(node, name, positional, named, hint)
        if name in table.DOWNLOADS and positional:
            stream = named.get("stream") or (positional[1] if len(positional) > 1 else None)
            return self._download(
                node, name, self.expr(positional[0]), stream, named, self.size_of(positional[0]), hint
            )
        if name in table.EMPTY:
            # the memory is usable on every stream at once, as after cudaMalloc; only its release is in stream order (O8)
            size = self._bytes(node, positional, named)
            return self.api(node, name, ApiKind.ALLOC, [("bytes", size)], RETURNS, hint)
        if name in table.PINNED:
            size = self._bytes(node, positional, named)
            if name == "cupy.cuda.alloc_pinned_memory" and positional:
                size = self.expr(positional[0])
            return self.api(node, name, ApiKind.HOST_ALLOC, [("bytes", size)], RETURNS, hint)
        if name in table.NEUTRAL or name in table.DEVICES:
            return self.opaque(node, name, [self.expr(a) for a in (*positional, *named.values())])
        if name in table.KERNEL_MODULES | table.RAW_KERNELS | table.SNIPPET_KERNELS | table.FUSED:
            return self.opaque(node, name)
        if name.startswith("cupy.cuda.runtime."):
            return self._runtime(node, name, positional)
        if name == "cupy.copyto" and len(positional) == 2:
            return self._copyto(node, positional)
        if name.startswith("cupy.cuda."):
            roles = [(f"arg{k}", self.expr(a)) for k, a in enumerate((*positional, *named.values()))]
            return self.api(node, name, ApiKind.UNMODELLED, roles, RETURNS)
        if name.startswith(("cupyx.profiler.", "cupyx.time.")):
            return self._unknown(node, Name(span, name), positional, named)
        if name.startswith(table.ARRAY_MODULES):
            return self._array_function(node, name, positional, named, hint)
        return self._host_library(node, name, positional, named, hint)

    def _array_function(self, node: Node, name: str, positional: list[Node], named: dict[str, Node], hint: str) -> Expr:
        operands = list(positional)
        if len(operands) == 1 and operands[0].type in ("list", "tuple") and self.kind(operands[0]).detail == "array":
            operands = list(operands[0].named_children)  # cupy.concatenate([a, b])
        roles = self.sources([*operands, *(v for k, v in named.items() if k != "out")])
        waits = name.rsplit(".", 1)[-1] in table.DATA_SIZED | table.SOLVERS or name.startswith(
            "cupyx.scipy.sparse.linalg"
        )
        flags = frozenset({"may-sync"}) if waits else frozenset()
        if "out" in named:
            out = self.expr(named["out"])
            call = self.api(node, name, ApiKind.LIBRARY_CALL, [*roles, ("dst", out)], flags)
            return self.sequence(node, [call, out])
        return self.api(node, name, ApiKind.LIBRARY_CALL, roles, RETURNS | flags, hint)

    def _upload(self, node: Node, name: str, positional: list[Node], named: dict[str, Node], hint: str) -> Expr:
        source = positional[0] if positional else named.get("a") or named.get("obj")
        if source is None:
            return self.opaque(node, name)
        kind = self.kind(source)
        if kind.what == "array":
            if name == "cupy.array" and not is_false(named.get("copy")):
                roles: list[tuple[str, Expr | None]] = [("src", self.expr(source))]
                return self.api(node, name, ApiKind.COPY, roles, ASYNC | RETURNS | {"d2d"}, hint)
            return self.expr(source)  # already on the device: the same memory
        # C6, C7: asynchronous on the current stream unless `blocking=True`
        flags = RETURNS | {"h2d"} | (frozenset() if is_true(named.get("blocking")) else ASYNC | {"staged"})
        if kind.what in ("pinned", "host"):
            return self.api(
                node, name, ApiKind.COPY, [("src", self.expr(source)), ("bytes", self.size_of(source))], flags, hint
            )
        staged: Expr = New(self.span(node), TypeRef("char"), self.opaque(node, "size", [self.expr(source)]))
        if kind.what == "":  # an array of either side, or numbers
            return self.api(node, name, ApiKind.LIBRARY_CALL, [("arg0", self.expr(source))], RETURNS, hint)
        return self.api(node, name, ApiKind.COPY, [("src", staged)], flags, hint)

    def _download(
        self,
        node: Node,
        name: str,
        array: Expr,
        stream: Node | None,
        named: dict[str, Node],
        size: Expr | None,
        hint: str,
    ) -> Expr:
        """C3: the host waits, unless `blocking=False`."""
        flags = frozenset({"d2h"}) | (ASYNC if is_false(named.get("blocking")) else frozenset())
        roles: list[tuple[str, Expr | None]] = [("src", array), ("bytes", size), ("stream", self._stream(stream))]
        if "out" in named and named["out"].type != "none":
            out = self.expr(named["out"])
            copy = self.api(node, name, ApiKind.COPY, [("dst", out), *roles], flags)
            return self.sequence(node, [copy, out])
        return self.api(node, name, ApiKind.COPY, roles, flags | RETURNS, hint)

    def _copyto(self, node: Node, positional: list[Node]) -> Expr:
        target, source = positional
        roles: list[tuple[str, Expr | None]] = [("dst", self.expr(target)), ("src", self.expr(source))]
        if self.kind(source).what in ("pinned", "host"):
            return self.api(node, "cupy.copyto", ApiKind.COPY, roles, ASYNC | {"h2d"})
        if self.kind(source).what == "array":
            return self.api(
                node, "cupy.copyto", ApiKind.COPY, [*roles, ("bytes", self.size_of(source))], ASYNC | {"d2d"}
            )
        return self.api(node, "cupy.copyto", ApiKind.LIBRARY_CALL, roles)

    def size_of(self, node: Node) -> Expr | None:
        """Bytes of an array or of a slice, when its making or its ends are in sight."""
        if node.type == "identifier" and text_of(node) not in self.scope.params:
            made = self.assigned_once(text_of(node))
            function = made.child_by_field_name("function") if made is not None and made.type == "call" else None
            name = self.inference.canonical(function) if function is not None else None
            if made is not None and name in table.EMPTY | table.PINNED | {"cupy.zeros", "cupy.ones"}:
                return self._bytes(made, *arguments_of(made))
            return None
        return self.extent(node)

    def _bytes(self, node: Node, positional: list[Node], named: dict[str, Node]) -> Expr | None:
        """Size of a new array, when shape and dtype are written."""
        kind = self.kind(node)
        size = table.SIZES.get(kind.detail)
        shape = positional[0] if positional else named.get("shape")
        if size is None or shape is None or self.kind(shape).what in MEMORY:
            return None
        span = self.span(node)
        total: Expr = Const(span, size)
        for part in shape.named_children if shape.type == "tuple" else [shape]:
            if self.kind(part).what != "plain":
                return None
            total = Binary(span, "*", total, self.expr(part))
        return total

    def _runtime(self, node: Node, name: str, positional: list[Node]) -> Expr:
        """The runtime API as CuPy exposes it: a function that has no out-argument has CUDA's own arguments."""
        last = name.rsplit(".", 1)[-1]
        row = cuda_api.lookup(f"cuda{last[:1].upper()}{last[1:]}", len(positional))
        if row is None or "out" in row.roles:
            roles = [(f"arg{k}", self.expr(a)) for k, a in enumerate(positional)]
            return self.api(node, name, ApiKind.UNMODELLED, roles, RETURNS)
        assigned = cuda_api.assign_roles(row, len(positional))
        given = [(role, self.expr(a)) for role, a in zip(assigned, positional, strict=False)]
        return self.api(node, name, row.kind, given, row.flags)

    def _host_library(self, node: Node, name: str, positional: list[Node], named: dict[str, Node], hint: str) -> Expr:
        root, last = name.split(".")[0], name.rsplit(".", 1)[-1]
        if name == "threading.Thread" and "target" in named:
            return self._thread(node, named)
        args = [*positional, *named.values()]
        if root == "numpy":
            if last in INTEGERS and len(positional) == 1:
                return Cast(self.span(node), TypeRef(table.ELEMENT_TYPES.get(last, "int")), self.expr(positional[0]))
            if last == "frombuffer" and positional and self.kind(positional[0]).what == "pinned":
                return self.expr(positional[0])
            if last == "copyto" and len(positional) == 2:
                target = positional[0]
                return self.write_elements(target, self.expr(target), self.consume(positional[1]))
            reads = [self.consume(a) for a in args if self.kind(a).what != "array"]
            if "out" in named:
                target = named["out"]
                return self.write_elements(target, self.expr(target), self.opaque(node, name, reads))
            if self.kind(node).what == "host":
                made = New(self.span(node), TypeRef("char"), self.opaque(node, "size", reads))
                return made
            return self.opaque(node, name, reads)
        if name in table.CLOCKS:
            return Call(self.span(node), Name(self.span(node), last), ())
        if root in table.HOST_MODULES:
            return self.opaque(node, name, [self.consume(a) for a in args])
        return self._unknown(node, Name(self.span(node), name), positional, named)

    def _thread(self, node: Node, named: dict[str, Node]) -> Expr:
        """A thread as C++ has it, which runs from here on; `start()` follows in practice."""
        args = named.get("args")
        given = args.named_children if args is not None and args.type in ("tuple", "list") else []
        self.mentions.add(text_of(named["target"]))
        values = (self.expr(named["target"]), *(self.expr(a) for a in given if a.type != "comment"))
        return Construct(self.span(node), TypeRef("std::thread"), values)


def flag(node: Node | None, value: int) -> int | None:
    if node is None or node.type in ("false", "none"):
        return 0
    return value if node.type == "true" else None


def is_true(node: Node | None) -> bool:
    return node is not None and node.type == "true"


def is_false(node: Node | None) -> bool:
    return node is not None and node.type == "false"
