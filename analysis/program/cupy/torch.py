"""PyTorch: streams, events, tensors and the copies between host and device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from stitchcuda.analysis.program.cupy import torch_table
from stitchcuda.analysis.program.cupy.kernels import Kernels
from stitchcuda.analysis.program.cupy.kinds import MEMORY, Kind, arguments_of
from stitchcuda.analysis.program.cupy.lowering import ELEMENT_TYPES, RETURNS, SAYS_DONE
from stitchcuda.analysis.program.cupy.torch_kinds import CUDA, in_place, on_cuda, uploads
from stitchcuda.analysis.program.ir import ApiKind, Assign, Const, Evaluate, Expr, Member, Name, New, Stmt, TypeRef
from stitchcuda.analysis.syntax.python import text_of
from tree_sitter import Node

ASYNC = frozenset({"async"})


class Torch(Kernels, ABC):
    @abstractmethod
    def _unknown(self, node: Node, callee: Expr, positional: Sequence[Node], named: dict[str, Node]) -> Expr: ...

    def _torch(self, node: Node, name: str, positional: list[Node], named: dict[str, Node], hint: str) -> Expr:
        span = self.span(node)
        args = [*positional, *named.values()]
        last = name.rsplit(".", 1)[-1]
        match name:
            case "torch.cuda.Stream":
                return self.api(node, name, ApiKind.STREAM_CREATE, [("flags", Const(span, 1))], RETURNS, hint)
            case "torch.cuda.Event":
                timing = named.get("enable_timing") or (positional[0] if positional else None)
                flags: Expr = Const(span, 2)
                if timing is not None and timing.type != "false":
                    flags = Const(span, 0) if timing.type == "true" else self.opaque(node, "flags")
                return self.api(node, name, ApiKind.EVENT_CREATE, [("flags", flags)], RETURNS, hint)
            case "torch.cuda.current_stream":
                return self.current_stream(node)
            case "torch.cuda.default_stream":
                return Const(span, 0)
            case "torch.cuda.stream" if args:
                return self.expr(args[0])
            case "torch.cuda.set_stream" if args:
                return self.api(node, name, ApiKind.SET_STREAM, [("stream", self.expr(args[0]))])
            case "torch.cuda.synchronize":
                return self.api(node, name, ApiKind.DEVICE_SYNC)
            case "torch.cuda.set_device" if args:
                return self.api(node, name, ApiKind.SET_DEVICE, [("device", self.expr(args[0]))])
        if name in torch_table.NEUTRAL or torch_table.is_module(name) or name == "torch.cuda.CUDAGraph":
            return self.opaque(node, name, [self.expr(a) for a in args])
        if name.startswith("torch.cuda."):
            roles: list[tuple[str, Expr | None]] = [(f"arg{k}", self.expr(a)) for k, a in enumerate(args)]
            return self.api(node, name, ApiKind.UNMODELLED, roles, RETURNS)
        made = self.kind(node)
        if last in torch_table.OF_HOST and positional:
            return self.expr(positional[0])
        if made.what == "array":
            return self._computed(node, name, positional, named, hint)
        if made.what == "pinned":
            return self.api(node, name, ApiKind.HOST_ALLOC, [("bytes", None)], RETURNS, hint)
        if made.what == "host":
            return New(span, TypeRef("char"), self.opaque(node, "size", [self.consume(a) for a in args]))
        if made.what == "plain":
            return self.opaque(node, name, [self.expr(a) for a in args])
        return self._unknown(node, Name(span, name), positional, named)

    def _computed(self, node: Node, name: str, positional: list[Node], named: dict[str, Node], hint: str) -> Expr:
        """A tensor that a function makes on the current stream."""
        last = name.rsplit(".", 1)[-1]
        if last in ("empty", "empty_like"):
            return self.api(node, name, ApiKind.ALLOC, [("bytes", None)], RETURNS, hint)
        operands = list(positional)
        if len(operands) >= 1 and operands[0].type in ("list", "tuple") and self.kind(operands[0]).detail == "array":
            operands = [*operands[0].named_children, *operands[1:]]  # torch.cat([a, b], dim)
        roles = self.sources([*operands, *(v for k, v in named.items() if k not in ("out", "device"))])
        flags = frozenset({"may-sync"}) if last in torch_table.WAITING else frozenset()
        if "out" in named:
            out = self.expr(named["out"])
            call = self.api(node, name, ApiKind.LIBRARY_CALL, [*roles, ("dst", out)], flags)
            return self.sequence(node, [call, out])
        return self.api(node, name, ApiKind.LIBRARY_CALL, roles, RETURNS | flags, hint)

    # ------------------------------------------------------------------------------------------------------- methods

    def _torch_method(
        self, node: Node, base: Node, kind: Kind, name: str, positional: list[Node], named: dict[str, Node], hint: str
    ) -> Expr | None:
        """A method that only PyTorch has; None: what CuPy has as well."""
        args = [*positional, *named.values()]
        match kind.what:
            case "stream":
                return self._torch_stream_method(node, self.expr(base), name, args)
            case "event":
                return self._torch_event_method(node, self.expr(base), name, args)
            case "graph" if name == "replay":
                roles: list[tuple[str, Expr | None]] = [("exec", self.expr(base)), ("stream", None)]
                return self.api(node, "torch.cuda.CUDAGraph.replay", ApiKind.GRAPH_LAUNCH, roles, ASYNC)
            case "snippet":
                return self.opaque(node, name, [self.expr(a) for a in args])
            case "" if uploads(name, positional, named, self.kind):
                given: list[tuple[str, Expr | None]] = [("arg0", self.expr(base))]
                return self.api(node, f"torch.Tensor.{name}", ApiKind.LIBRARY_CALL, given, RETURNS, hint)
            case "array" | "pinned" | "host":
                return self._torch_tensor_method(node, base, kind, name, positional, named, hint)
        return None

    def _torch_stream_method(self, node: Node, stream: Expr, name: str, args: list[Node]) -> Expr | None:
        span = self.span(node)
        display = f"torch.cuda.Stream.{name}"
        if name == "wait_stream" and args:
            made = self.temporary(node, ELEMENT_TYPES["event"])
            create = self.api(
                node, "torch.cuda.Event", ApiKind.EVENT_CREATE, [("flags", Const(span, 2))], RETURNS, "event"
            )
            record = self.api(
                node, display, ApiKind.EVENT_RECORD, [("stream", self.expr(args[0])), ("event", made)], ASYNC
            )
            wait = self.api(node, display, ApiKind.EVENT_WAIT, [("stream", stream), ("event", made)], ASYNC)
            return self.sequence(node, [Assign(span, made, create), record, wait])
        if name == "query":
            return self.api(node, display, ApiKind.QUERY, [("stream", stream)], SAYS_DONE)
        return None

    def _torch_event_method(self, node: Node, event: Expr, name: str, args: list[Node]) -> Expr | None:
        display = f"torch.cuda.Event.{name}"
        if name == "wait":
            stream = self.expr(args[0]) if args else None
            return self.api(node, display, ApiKind.EVENT_WAIT, [("stream", stream), ("event", event)], ASYNC)
        if name == "elapsed_time" and args:
            roles: list[tuple[str, Expr | None]] = [("event", event), ("end_event", self.expr(args[0]))]
            return self.api(node, display, ApiKind.ELAPSED_TIME, roles, RETURNS)
        if name == "query":
            return self.api(node, display, ApiKind.QUERY, [("event", event)], SAYS_DONE)
        return None

    def _torch_tensor_method(
        self, node: Node, base: Node, kind: Kind, name: str, positional: list[Node], named: dict[str, Node], hint: str
    ) -> Expr | None:
        """A method that only tensors have; None: what arrays have as well."""
        tensor = self.expr(base)
        args = [*positional, *(v for k, v in named.items() if k != "non_blocking")]
        display = f"torch.Tensor.{name}"
        if name in torch_table.FACTS:
            return self.opaque(node, name)
        if name == "data_ptr" or name in torch_table.VIEWS:
            return tensor
        later = ASYNC if _is_true(named.get("non_blocking")) else frozenset()
        if name == "copy_" and args:
            return self._copied(node, tensor, kind, args[0], later)
        made = self.kind(node)
        if kind.what == "array":
            if name in torch_table.DOWNLOADS or name == "to" and made.what == "host":
                down = self.api(node, display, ApiKind.COPY, [("src", tensor)], later | RETURNS | {"d2h"}, hint)
                return down
            if name == "record_stream":
                return self.opaque(node, name, [self.expr(a) for a in args])
            if name == "cuda":
                return tensor
            if name == "to" and all(on_cuda(a, self.kind) or self.kind(a) == CUDA for a in args):
                return tensor
            if in_place(name):
                roles: list[tuple[str, Expr | None]] = [("dst", tensor), *self.sources([base, *args])]
                return self.sequence(node, [self.api(node, display, ApiKind.LIBRARY_CALL, roles), tensor])
            return None
        if made.what == "array":  # C6, C7: asynchronous from pinned memory when that is asked for
            return self.api(node, display, ApiKind.COPY, [("src", tensor)], later | RETURNS | {"h2d"}, hint)
        if name == "pin_memory":
            alloc = self.api(node, display, ApiKind.HOST_ALLOC, [("bytes", None)], RETURNS, hint)
            return self.sequence(node, [self.elements(base, tensor), alloc])
        if name in ("numpy", "cpu") or name == "to" and made.what == kind.what:
            return tensor
        if in_place(name):
            value = self.opaque(node, name, [self.consume(a) for a in args])
            return self.sequence(node, [self.write_elements(base, tensor, value), tensor])
        return None

    def _copied(self, node: Node, tensor: Expr, kind: Kind, source: Node, later: frozenset[str]) -> Expr:
        """`a.copy_(b, non_blocking=...)`"""
        given = self.kind(source).what
        display = "torch.Tensor.copy_"
        if kind.what != "array" and given != "array":
            return self.sequence(node, [self.write_elements(node, tensor, self.consume(source)), tensor])
        roles: list[tuple[str, Expr | None]] = [("dst", tensor), ("src", self.expr(source))]
        if kind.what == "array" and given not in MEMORY:
            call = self.api(node, display, ApiKind.LIBRARY_CALL, roles)
        elif kind.what == "array" and given == "array":
            call = self.api(node, display, ApiKind.COPY, roles, ASYNC | {"d2d"})
        else:
            call = self.api(node, display, ApiKind.COPY, roles, later | {"h2d" if kind.what == "array" else "d2h"})
        return self.sequence(node, [call, tensor])

    def _captured(self, value: Node) -> tuple[list[Stmt], Stmt] | None:
        """`with torch.cuda.graph(g, stream=...)`: the device is waited for, then what follows is recorded on a stream of
        its own; the other statement ends that."""
        positional, named = arguments_of(value)
        graph = self.expr(positional[0]) if positional else None
        if not isinstance(graph, Name | Member):
            return None
        span, display = self.span(value), "torch.cuda.graph"
        previous = self.temporary(value, ELEMENT_TYPES["stream"])
        stream = self.temporary(value, ELEMENT_TYPES["stream"])
        given = named.get("stream")
        made: Expr = self.api(value, display, ApiKind.STREAM_CREATE, [("flags", Const(span, 1))], RETURNS, "capture")
        own = self.expr(given) if given is not None and given.type != "none" else made
        opened: list[Expr] = [
            self.api(value, display, ApiKind.DEVICE_SYNC),
            Assign(span, previous, self.current_stream(value)),
            Assign(span, stream, own),
            self.api(value, display, ApiKind.SET_STREAM, [("stream", stream)]),
            self.api(value, display, ApiKind.CAPTURE_BEGIN, [("stream", stream)]),
        ]
        end = self.api(value, display, ApiKind.CAPTURE_END, [("stream", stream)], RETURNS)
        closed: list[Expr] = [
            Assign(span, graph, self.api(value, display, ApiKind.GRAPH_INSTANTIATE, [("graph", end)], RETURNS)),
            self.api(value, display, ApiKind.SET_STREAM, [("stream", previous)]),
        ]
        return [Evaluate(span, e) for e in opened], Evaluate(span, self.sequence(value, closed))

    def _recorded_elsewhere(self, name: str) -> bool:
        """`x.record_stream(s)`: the allocator waits for that stream before it gives the memory to somebody else."""
        return any(
            n.type == "attribute"
            and text_of(n.child_by_field_name("attribute") or n) == "record_stream"
            and text_of(n.child_by_field_name("object") or n) == name
            for n in self.scope.nodes()
        )


def _is_true(node: Node | None) -> bool:
    return node is not None and node.type == "true"
