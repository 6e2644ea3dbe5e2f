"""Calls: CuPy by the table, kernels as launches, functions of the file as calls, host libraries as what they read."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence

from stitchcuda.analysis.program import api as cuda_api
from stitchcuda.analysis.program.cupy import table
from stitchcuda.analysis.program.cupy.expressions import Expressions, kernel_name
from stitchcuda.analysis.program.cupy.inference import MEMORY, arguments_of, literal
from stitchcuda.analysis.program.cupy.lowering import ELEMENT_TYPES, RETURNS
from stitchcuda.analysis.program.ir import (
    ApiKind,
    Assign,
    Binary,
    Call,
    Cast,
    Const,
    Construct,
    Expr,
    Launch,
    Member,
    Name,
    New,
    TypeRef,
)
from stitchcuda.analysis.syntax.python import text_of
from tree_sitter import Node

ASYNC = frozenset({"async"})
INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "intp", "uintp"})
# methods of objects that are not known, which by their names belong to Python's own containers, text and files
PYTHON_METHODS = frozenset(
    [
        "append",
        "extend",
        "insert",
        "items",
        "keys",
        "values",
        "get",
        "update",
        "pop",
        "remove",
        "clear",
        "copy",
        "index",
        "count",
        "format",
        "join",
        "split",
        "strip",
        "lower",
        "upper",
        "startswith",
        "endswith",
        "replace",
        "encode",
        "decode",
        "read",
        "write",
        "readline",
        "close",
        "add",
        "parse_args",
        "add_argument",
        "setdefault",
        "info",
        "debug",
        "warning",
        "error",
        "exists",
        "mkdir",
    ]
)


class Calls(Expressions, ABC):
    def call(self, node: Node, hint: str) -> Expr:
        function = node.child_by_field_name("function")
        if function is None:
            return self.opaque(node, "call")
        positional, named = arguments_of(node)
        canonical = self.inference.canonical(function)
        if canonical is not None and self.kind(function.child_by_field_name("object")).what != "stream":
            return self._library(node, canonical, positional, named, hint)
        kind = self.kind(function)
        if kind.what == "kernel" and function.type in ("identifier", "attribute"):
            return self._launch(node, function, positional, named)
        if kind.what == "snippet":
            return self._snippet(node, function, positional, named, hint)
        if function.type == "call":  # RawKernel(code, name)(grid, block, args)
            made = self.kind(function)
            if made.what == "kernel":
                return self._launch(node, function, positional, named)
        if function.type == "identifier":
            return self._named(node, text_of(function), positional, named)
        if function.type == "attribute":
            return self._method(node, function, positional, named, hint)
        return self._unknown(node, self.expr(function), positional, named)

    # ----------------------------------------------------------------------------------------------- plain functions

    def _named(self, node: Node, name: str, positional: Sequence[Node], named: Mapping[str, Node]) -> Expr:
        span = self.span(node)
        file = self.inference.file
        if name in file.classes:
            self.mentions.add(name)
            return Construct(span, TypeRef(name), self._ordered(f"{name}.__init__", positional, named))
        if name in file.functions:
            self.mentions.add(name)
            return Call(span, Name(span, name), self._ordered(name, positional, named))
        if name == "len" and positional and self.kind(positional[0]).what == "list":
            return Call(span, Member(span, self.expr(positional[0]), "size"), ())
        if name == "range":
            return Call(span, Name(span, "range"), tuple(self.expr(a) for a in positional))
        if name in ("int", "abs") and len(positional) == 1 and self.kind(positional[0]).what not in MEMORY:
            return self.expr(positional[0])
        if name in table.HOST_BUILTINS:
            take = self.consume if name in table.READING_BUILTINS else self.expr
            return self.opaque(node, name, [take(a) for a in (*positional, *named.values())])
        return self._unknown(node, Name(span, name), positional, named)

    def _ordered(self, function: str, positional: Sequence[Node], named: Mapping[str, Node]) -> tuple[Expr, ...]:
        """Arguments in the order of the parameters of a function of this file, as far as they are written."""
        scope = self.inference.file.functions.get(function)
        given = [self.expr(a) for a in positional]
        if scope is not None:
            for name in scope.params[len(given) :]:
                if name not in named:
                    break
                given.append(self.expr(named[name]))
        return tuple(given)

    def _unknown(self, node: Node, callee: Expr, positional: Sequence[Node], named: Mapping[str, Node]) -> Expr:
        """A function that is not in sight: it may wait for the device and touch what it is given."""
        args = tuple(self.expr(a) for a in (*positional, *named.values()))
        return Call(self.span(node), callee, args)

    # ------------------------------------------------------------------------------------------------------- methods

    def _method(self, node: Node, function: Node, positional: list[Node], named: dict[str, Node], hint: str) -> Expr:
        base = function.child_by_field_name("object")
        name = text_of(function.child_by_field_name("attribute") or function)
        if base is None:
            return self.opaque(node, "call")
        own = self.inference.callee(node, self.scope)
        if own is not None:
            self.mentions.add(name)
            owner = own.owner
            callee = Member(self.span(function), self.expr(base), name)
            return Call(self.span(node), callee, self._ordered(f"{owner}.{name}", positional, named))
        kind = self.kind(base)
        match kind.what:
            case "stream":
                return self._stream_method(node, base, name, positional, named, hint)
            case "event":
                return self._event_method(node, base, name, positional, named)
            case "array":
                return self._array_method(node, base, name, positional, named, hint)
            case "pinned" | "host":
                return self._host_method(node, base, name, positional, named)
            case "graph" if name == "launch":
                stream = positional[0] if positional else named.get("stream")
                roles = [("exec", self.expr(base)), ("stream", self._stream(stream))]
                return self.api(node, "cupy.cuda.Graph.launch", ApiKind.GRAPH_LAUNCH, roles, ASYNC)
            case "device" if name == "synchronize":
                return self.api(node, "cupy.cuda.Device.synchronize", ApiKind.DEVICE_SYNC)
            case "device" if name == "use":
                return self.set_device(node, base)
            case "list" if name == "append" and positional:
                target = Member(self.span(function), self.expr(base), "push_back")
                return Call(self.span(node), target, (self.expr(positional[0]),))
            case "module" if name == "get_function":
                return self.opaque(node, "kernel")
        args = [*positional, *named.values()]
        if name in ("synchronize", "record", "wait_event"):  # of a stream, event or device, which one is not known
            roles = [(f"arg{k}", self.expr(a)) for k, a in enumerate(args)]
            return self.api(node, f"{text_of(function)}", ApiKind.UNMODELLED, roles, RETURNS)
        if name in PYTHON_METHODS and not any(self.kind(a).what == "array" for a in args):
            return self.opaque(node, name, [self.expr(base), *(self.expr(a) for a in args)])
        return self._unknown(node, self.opaque(function, name, [self.expr(base)]), positional, named)

    def _stream(self, node: Node | None) -> Expr | None:
        """A `stream=` argument; None (not given) stands for the current stream."""
        return None if node is None or node.type == "none" else self.expr(node)

    def _stream_method(
        self, node: Node, base: Node, name: str, positional: list[Node], named: dict[str, Node], hint: str
    ) -> Expr:
        stream = self.expr(base)
        display = f"cupy.cuda.Stream.{name}"
        span = self.span(node)
        match name:
            case "synchronize":
                return self.api(node, display, ApiKind.STREAM_SYNC, [("stream", stream)])
            case "wait_event" if positional or "event" in named:
                event = positional[0] if positional else named["event"]
                roles = [("stream", stream), ("event", self.expr(event))]
                return self.api(node, display, ApiKind.EVENT_WAIT, roles, ASYNC)
            case "record":
                given = positional[0] if positional else named.get("event")
                if given is not None and given.type != "none":
                    target = self.expr(given)
                    roles = [("stream", stream), ("event", target)]
                    record = self.api(node, display, ApiKind.EVENT_RECORD, roles, ASYNC)
                    return self.sequence(node, [record, target])
                made = self.temporary(node, ELEMENT_TYPES["event"])
                create = self.api(node, "cupy.cuda.Event", ApiKind.EVENT_CREATE, (), RETURNS, hint or "event")
                roles = [("stream", stream), ("event", made)]
                record = self.api(node, display, ApiKind.EVENT_RECORD, roles, ASYNC)
                return self.sequence(node, [Assign(span, made, create), record, made])
            case "use":
                use = self.api(node, display, ApiKind.SET_STREAM, [("stream", stream)])
                return self.sequence(node, [use, stream])
            case "launch_host_func" | "add_callback":
                roles = [("stream", stream), *((f"arg{k}", self.expr(a)) for k, a in enumerate(positional))]
                return self.api(node, display, ApiKind.HOST_FUNC, roles, ASYNC)
            case "begin_capture":
                return self.api(node, display, ApiKind.CAPTURE_BEGIN, [("stream", stream)])
            case "end_capture":  # CuPy instantiates the graph at once
                end = self.api(node, display, ApiKind.CAPTURE_END, [("stream", stream)], RETURNS)
                return self.api(node, display, ApiKind.GRAPH_INSTANTIATE, [("graph", end)], RETURNS)
            case "is_capturing":
                return self.opaque(node, name)
        return self.api(node, display, ApiKind.UNMODELLED, [("stream", stream)], RETURNS)

    def _event_method(self, node: Node, base: Node, name: str, positional: list[Node], named: dict[str, Node]) -> Expr:
        event = self.expr(base)
        display = f"cupy.cuda.Event.{name}"
        if name == "record":
            stream = positional[0] if positional else named.get("stream")
            roles = [("event", event), ("stream", self._stream(stream))]
            return self.api(node, display, ApiKind.EVENT_RECORD, roles, ASYNC)
        if name == "synchronize":
            return self.api(node, display, ApiKind.EVENT_SYNC, [("event", event)])
        return self.api(node, display, ApiKind.UNMODELLED, [("event", event)], RETURNS)

    def _array_method(
        self, node: Node, base: Node, name: str, positional: list[Node], named: dict[str, Node], hint: str
    ) -> Expr:
        array = self.expr(base)
        display = f"cupy.ndarray.{name}"
        size = self.size_of(base)
        if name == "get":
            stream = named.get("stream") or (positional[0] if positional else None)
            if size is None and "out" in named:
                size = self.size_of(named["out"])
            return self._download(node, display, array, stream, named, size, hint)
        if name == "set" and (positional or "arr" in named):
            source = positional[0] if positional else named["arr"]
            stream = named.get("stream") or (positional[1] if len(positional) > 1 else None)
            size = size or self.size_of(source)
            roles = [("dst", array), ("src", self.expr(source)), ("bytes", size), ("stream", self._stream(stream))]
            return self.api(node, display, ApiKind.COPY, roles, ASYNC | {"h2d"})
        if name in ("copy_from_host_async", "copy_from_host", "copy_to_host_async", "copy_to_host") and positional:
            return self._raw_copy(node, array, name, positional, named)
        if name == "item":
            return self.consume(base)
        if name in table.VIEWS:
            return array
        if name == "fill":
            roles = [("dst", array), *((f"arg{k}", self.expr(a)) for k, a in enumerate(positional))]
            return self.api(node, display, ApiKind.LIBRARY_CALL, roles)
        if name in table.IN_PLACE:
            return self.api(node, display, ApiKind.LIBRARY_CALL, [("dst", array), *self.sources([base, *positional])])
        if name == "copy":
            roles = [("src", array), ("bytes", size)]
            return self.api(node, display, ApiKind.COPY, roles, ASYNC | RETURNS | {"d2d"}, hint)
        roles = self.sources([base, *positional])
        if "out" in named:
            roles.append(("dst", self.expr(named["out"])))
            return self.api(node, display, ApiKind.LIBRARY_CALL, roles)
        return self.api(node, display, ApiKind.LIBRARY_CALL, roles, RETURNS, hint)

    def _raw_copy(self, node: Node, array: Expr, name: str, positional: list[Node], named: dict[str, Node]) -> Expr:
        """`MemoryPointer.copy_from_host_async(mem, size, stream)` and its kin."""
        host = self.expr(positional[0])
        size = positional[1] if len(positional) > 1 else named.get("size")
        stream = positional[2] if len(positional) > 2 else named.get("stream")
        down = "to_host" in name
        roles = [
            ("dst", host if down else array),
            ("src", array if down else host),
            ("bytes", self.expr(size) if size is not None else None),
            ("stream", self._stream(stream)),
        ]
        flags = frozenset({"d2h" if down else "h2d"}) | (ASYNC if name.endswith("async") else frozenset())
        return self.api(node, f"cupy.cuda.MemoryPointer.{name}", ApiKind.COPY, roles, flags)

    def _host_method(self, node: Node, base: Node, name: str, positional: list[Node], named: dict[str, Node]) -> Expr:
        memory = self.expr(base)
        if name in table.VIEWS:
            return memory
        args = [self.consume(a) for a in (*positional, *named.values())]
        if name in ("astype", "copy", "tolist", "tobytes"):
            reads = self.opaque(node, "size", [self.element(base, memory), *args])
            return New(self.span(node), TypeRef("char"), reads)
        if name == "fill":
            any_element = self.element(base, memory)
            value = args[0] if args else self.opaque(node, name)
            return Assign(self.span(node), any_element, value)
        return self.opaque(node, name, [self.element(base, memory), *args])

    # --------------------------------------------------------------------------------------------------------- CuPy

    def _library(self, node: Node, name: str, positional: list[Node], named: dict[str, Node], hint: str) -> Expr:
        span = self.span(node)
        if name in table.STREAMS:
            flags = _flag(positional[1] if len(positional) > 1 else named.get("non_blocking"), 1)
            if positional and positional[0].type == "true" or _is_true(named.get("null")):
                return Const(span, 0)
            if flags is None:
                return self.api(
                    node, name, ApiKind.STREAM_CREATE, [("flags", self.opaque(node, "flags"))], RETURNS, hint
                )
            return self.api(node, name, ApiKind.STREAM_CREATE, [("flags", Const(span, flags))], RETURNS, hint)
        if name in table.EVENTS:
            timing = _flag(positional[1] if len(positional) > 1 else named.get("disable_timing"), 2)
            flag: Expr = self.opaque(node, "flags") if timing is None else Const(span, timing)
            return self.api(node, name, ApiKind.EVENT_CREATE, [("flags", flag)], RETURNS, hint)
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
        flags = frozenset({"may-sync"}) if name.rsplit(".", 1)[-1] in table.DATA_SIZED else frozenset()
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
            if name == "cupy.array" and not _is_false(named.get("copy")):
                roles: list[tuple[str, Expr | None]] = [("src", self.expr(source))]
                return self.api(node, name, ApiKind.COPY, roles, ASYNC | RETURNS | {"d2d"}, hint)
            return self.expr(source)  # already on the device: the same memory
        # C6, C7: asynchronous on the current stream unless `blocking=True`
        flags = RETURNS | {"h2d"} | (frozenset() if _is_true(named.get("blocking")) else ASYNC | {"staged"})
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
        flags = frozenset({"d2h"}) | (ASYNC if _is_false(named.get("blocking")) else frozenset())
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
        args = [*positional, *named.values()]
        if root == "numpy":
            if last in INTEGERS and len(positional) == 1:
                return Cast(self.span(node), TypeRef(table.ELEMENT_TYPES.get(last, "int")), self.expr(positional[0]))
            if last == "frombuffer" and positional and self.kind(positional[0]).what == "pinned":
                return self.expr(positional[0])
            if last == "copyto" and len(positional) == 2:
                target = self.element(positional[0], self.expr(positional[0]))
                return Assign(self.span(node), target, self.consume(positional[1]))
            reads = [self.consume(a) for a in args if self.kind(a).what != "array"]
            if "out" in named:
                target = self.element(named["out"], self.expr(named["out"]))
                return Assign(self.span(node), target, self.opaque(node, name, reads))
            if self.kind(node).what == "host":
                made = New(self.span(node), TypeRef("char"), self.opaque(node, "size", reads))
                return made
            return self.opaque(node, name, reads)
        if root in table.HOST_MODULES:
            return self.opaque(node, name, [self.consume(a) for a in args])
        return self._unknown(node, Name(self.span(node), name), positional, named)

    # ------------------------------------------------------------------------------------------------------- kernels

    def _launch(self, node: Node, function: Node, positional: list[Node], named: dict[str, Node]) -> Expr:
        """`kernel(grid, block, args, shared_mem=..., stream=...)`."""
        self.cuda_calls += 1
        detail = self.kind(function).detail
        name = kernel_name(detail) if detail else text_of(function)
        self.mentions.add(name)
        grid = positional[0] if positional else named.get("grid")
        block = positional[1] if len(positional) > 1 else named.get("block")
        given = positional[2] if len(positional) > 2 else named.get("args")
        shared = named.get("shared_mem")
        return Launch(
            self.span(node),
            Name(self.span(function), name),
            self.expr(grid) if grid is not None else None,
            self.expr(block) if block is not None else None,
            self.expr(shared) if shared is not None else None,
            self._stream(named.get("stream")),
            self._kernel_arguments(given),
            api="RawKernel",
        )

    def _kernel_arguments(self, given: Node | None) -> tuple[Expr, ...]:
        if given is None:
            return ()
        if given.type == "identifier":
            value = self.assigned_once(text_of(given))
            if value is not None and value.type in ("tuple", "list"):
                given = value
        if given.type in ("tuple", "list"):
            return tuple(self.expr(c) for c in given.named_children if c.type != "comment")
        return (self.opaque(given, "arguments", [self.expr(given)]),)

    def _snippet(self, node: Node, function: Node, positional: list[Node], named: dict[str, Node], hint: str) -> Expr:
        """A kernel made of a snippet: the inputs that its declaration names are read, arrays after them are written."""
        display = text_of(function)
        value = self.assigned_once(display) if function.type == "identifier" else None
        declared = literal(arguments_of(value)[0][0]) if value is not None and arguments_of(value)[0] else ""
        arrays = [a for a in positional if self.kind(a).what in MEMORY]
        if "ReductionKernel" in text_of(value or node) or not declared:
            roles = (
                self.sources(positional) if declared else [(f"arg{k}", self.expr(a)) for k, a in enumerate(positional)]
            )
            return self.api(node, display, ApiKind.LIBRARY_CALL, roles, RETURNS, hint)
        inputs = len([p for p in declared.split(",") if p.strip()])
        roles = self.sources(positional[:inputs])
        outputs = [a for a in positional[inputs:] if a in arrays]
        for out in outputs:
            roles.append(("dst", self.expr(out)))
        if outputs:
            return self.api(node, display, ApiKind.LIBRARY_CALL, roles)
        return self.api(node, display, ApiKind.LIBRARY_CALL, roles, RETURNS, hint)

    def set_device(self, node: Node, device: Node) -> Expr:
        """`Device(k)` made current; k is known when it is written here."""
        number: Expr = self.opaque(node, "device")
        if device.type == "call":
            positional, _ = arguments_of(device)
            if positional:
                number = self.expr(positional[0])
            elif not positional:
                return self.opaque(node, "the current device")
        return self.api(node, "cupy.cuda.Device.use", ApiKind.SET_DEVICE, [("device", number)])


def _flag(node: Node | None, value: int) -> int | None:
    if node is None or node.type in ("false", "none"):
        return 0
    return value if node.type == "true" else None


def _is_true(node: Node | None) -> bool:
    return node is not None and node.type == "true"


def _is_false(node: Node | None) -> bool:
    return node is not None and node.type == "false"
