"""Calls: CuPy by the table, kernels as launches, functions of the file as calls, host libraries as what they read."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence

from stitchcuda.analysis.program.cupy import table
from stitchcuda.analysis.program.cupy.kinds import MEMORY, UNKNOWN, arguments_of
from stitchcuda.analysis.program.cupy.library import ASYNC, Library
from stitchcuda.analysis.program.cupy.lowering import ELEMENT_TYPES, RETURNS, STATIC
from stitchcuda.analysis.program.ir import (
    ApiKind,
    Assign,
    Call,
    Construct,
    Expr,
    Member,
    Name,
    New,
    TypeRef,
)
from stitchcuda.analysis.syntax.python import text_of
from tree_sitter import Node

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


class Calls(Library, ABC):
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
        if kind.what == "function" and kind.detail and function.type == "identifier":
            return self._library(node, kind.detail, positional, named, hint)
        if kind.what == "snippet" and self.inference.file.torch:
            return self._computed(node, text_of(function), positional, named, hint)
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
            if name in file.fields:
                return Construct(span, TypeRef(name), self._fields(node, name, positional, named))
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

    def _fields(self, node: Node, name: str, positional: Sequence[Node], named: Mapping[str, Node]) -> tuple[Expr, ...]:
        """What a data class is made with, in the order of the fields that have a variable."""
        fields = self.inference.file.fields[name]
        given = {**fields, **dict(zip(fields, positional, strict=False)), **named}
        values: list[Expr] = []
        for field in fields:
            kind, value = self.inference.file.attributes.get((name, field), UNKNOWN), given[field]
            if kind.what not in STATIC:
                values.append(
                    self.opaque(node, field) if value is None else self.typed(value, self.expr(value, field), kind)
                )
        return tuple(values)

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
        if self.inference.file.torch:
            found = self._torch_method(node, base, kind, name, positional, named, hint)
            if found is not None:
                return found
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
            case "thread" if name == "join":
                return Call(self.span(node), Member(self.span(function), self.expr(base), "join"), ())
            case "thread":
                return self.opaque(node, name)
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
        display = f"{self.library}.cuda.Stream.{name}"
        span = self.span(node)
        match name:
            case "synchronize":
                return self.api(node, display, ApiKind.STREAM_SYNC, [("stream", stream)])
            case "wait_event" if positional or "event" in named:
                event = positional[0] if positional else named["event"]
                roles = [("stream", stream), ("event", self.expr(event))]
                return self.api(node, display, ApiKind.EVENT_WAIT, roles, ASYNC)
            case "record" | "record_event":
                given = positional[0] if positional else named.get("event")
                if given is not None and given.type != "none":
                    target = self.expr(given)
                    roles = [("stream", stream), ("event", target)]
                    record = self.api(node, display, ApiKind.EVENT_RECORD, roles, ASYNC)
                    return self.sequence(node, [record, target])
                made = self.temporary(node, ELEMENT_TYPES["event"])
                create = self.api(
                    node, f"{self.library}.cuda.Event", ApiKind.EVENT_CREATE, (), RETURNS, hint or "event"
                )
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
        display = f"{self.library}.cuda.Event.{name}"
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
        display = f"{self.array_type}.{name}"
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
            reads = self.opaque(node, "size", [self.elements(base, memory), *args])
            return New(self.span(node), TypeRef("char"), reads)
        if name == "fill":
            return self.write_elements(base, memory, args[0] if args else self.opaque(node, name))
        return self.opaque(node, name, [self.elements(base, memory), *args])

    # --------------------------------------------------------------------------------------------------------- CuPy

    # ------------------------------------------------------------------------------------------------------- kernels

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
