"""CUDA graphs: built node by node, made executable, changed, launched (G5)."""

from __future__ import annotations

import re
from dataclasses import replace

from stitchcuda.analysis.order.arithmetic import NULL
from stitchcuda.analysis.order.cuda.host_functions import HostFunctions
from stitchcuda.analysis.order.cuda.launches import merge_accesses
from stitchcuda.analysis.order.machine import Done, Placed
from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.order.state import Key, State
from stitchcuda.analysis.order.symbolic import ZERO, number
from stitchcuda.analysis.order.timeline import Access, Certainty, Edge, Memory, Mode, Range, StreamKind
from stitchcuda.analysis.order.values import Handle, Num, Place, Pointer, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind, Program, Span

_NAME = re.compile(r"(?:cuda|cu)(Graph\w*?)(?:_v\d+)?$")
_TYPES = {0: "Kernel", 1: "Memcpy", 2: "Memset", 3: "Host", 4: "ChildGraph", 5: "Empty", 6: "EventWait",
          7: "EventRecord", 10: "MemAlloc", 11: "MemFree", 13: "Conditional"}  # fmt: skip
# The member of cudaGraphNodeParams that describes a node of each type.
_MEMBERS = {"Kernel": "kernel", "Memcpy": "memcpy", "Memset": "memset", "Host": "host", "ChildGraph": "graph",
            "EventWait": "eventWait", "EventRecord": "eventRecord", "MemAlloc": "alloc", "MemFree": "free",
            "Conditional": "conditional"}  # fmt: skip
_KINDS = {"Kernel": ApiKind.LAUNCH, "Memcpy": ApiKind.COPY, "Memset": ApiKind.MEMSET, "Host": ApiKind.HOST_FUNC,
          "ChildGraph": ApiKind.GRAPH_LAUNCH, "Conditional": ApiKind.GRAPH_LAUNCH, "MemAlloc": ApiKind.ALLOC,
          "MemFree": ApiKind.FREE}  # fmt: skip
MAX_NODES = 64  # of a list of dependencies


class Graphs(HostFunctions):
    """Layer of the executor: explicit graphs, and what a launch of a graph does."""

    def __init__(self, program: Program, options: Options) -> None:
        super().__init__(program, options)
        self._lanes: dict[int, int] = {}  # graph -> the stream that stands for it
        self._inner: dict[int, int] = {}  # op of a node -> the graph that it runs
        self._updated: dict[Handle, int] = {}  # executable -> the graph that it was brought in line with
        self._changed: dict[tuple[Handle | None, int], tuple[Access, ...]] = {}  # new parameters of nodes

    # ------------------------------------------------------------------------------------------------------- building

    def graph_call(self, expr: ir.Api, state: State) -> Value | None:
        """A call that makes or changes an explicit graph; None when it is another one."""
        found = _NAME.match(expr.name)
        name = found.group(1) if found else ""
        if name == "GraphCreate":
            self.roles(expr, state)
            graph = self.graph_for(self.identity("graph", expr.span))
            self.hold(state, graph, ())
            self.revive(state, ("graph", graph, 0))
            return self.write_out(expr, Handle("graph", graph), state)
        if name == "GraphClone":
            return self._clone(expr, self.roles(expr, state).get("graph", NULL), state)
        if name == "GraphAddDependencies":
            self._add_dependencies(expr, state)
            return NULL
        if name.startswith("GraphAdd"):
            return self._add(expr, name, state)
        if "SetParams" in name or name.endswith("SetEvent"):
            return self._set_parameters(expr, name, state)
        return None

    def _clone(self, expr: ir.Api, given: Value, state: State) -> Value:
        if not isinstance(given, Handle) or given.kind != "graph":
            return self.write_out(expr, Unknown(self.fresh("graph")), state)
        graph = self.graph_for(self.identity("graph", expr.span))
        self.hold(state, graph, self.held(state, given.id))
        self.revive(state, ("graph", graph, 0))
        return self.write_out(expr, Handle("graph", graph), state)

    def release(self, state: State, key: Key, span: Span, how: str, op: int | None = None) -> None:
        """What a graph allocates is there again at its next launch, wherever it was released."""
        made = self.objects[key[1]].alloc_op if key[0] == "memory" else None
        ours = made is not None and self.ops[made].graph is not None
        if not ours or (op is not None and self.ops[op].graph is not None):
            super().release(state, key, span, how, op)

    def _add(self, expr: ir.Api, name: str, state: State) -> Value:
        values = self.roles(expr, state)
        graph = values.get("graph")
        kind = name.removeprefix("GraphAdd").partition("Node")[0]
        place = self.block_place(values.get("params"), state)
        if kind == "":  # cudaGraphAddNode: the structure says which
            told = self.part(place, "type", state) if place is not None else None
            code = told.value.constant if isinstance(told, Num) else None
            kind = _TYPES.get(-1 if code is None else code, "")
            if place is not None and kind in _MEMBERS:
                place = place.field(_MEMBERS[kind])
                if kind == "Memcpy":
                    place = place.field("copyParams")
        if not isinstance(graph, Handle) or graph.kind != "graph":
            return self.write_out(expr, Unknown(self.fresh("node")), state)
        accesses, details, certain = self._node(kind, expr, values, place, state)
        op = self._place_node(expr, graph.id, kind, accesses, details, certain, state, values)
        if kind == "MemAlloc" and place is not None:
            self._allocated(op, expr, place, state)
        elif kind in ("ChildGraph", "Conditional"):
            self._child(op, kind, expr, values, place, state)
        self.hold(state, graph.id, (*self.held(state, graph.id), op))
        return self.write_out(expr, Handle("node", op), state)

    def _place_node(
        self, expr: ir.Api, graph: int, kind: str, accesses: list[Access], details: dict[str, str], certain: bool,
        state: State, values: dict[str, Value],
    ) -> int:  # fmt: skip
        """An op of the graph, after the nodes that it depends on and unordered with the others."""
        written = expr.role("arg2"), expr.role("arg3")
        before, direct = self._dependencies(
            values.get("arg2"), values.get("arg3"), written[0] is not None, graph, state
        )
        earlier = sum(1 << o for o in self.held(state, graph))
        edges = tuple(Edge(o, len(self.ops), "capture") for o in direct)
        placed = Placed(before, earlier, edges, graph)
        span, api = expr.span, expr.name
        return self.append_placed(
            state, placed, _KINDS.get(kind, ApiKind.NEUTRAL), api, span, stream=self.lane(graph, expr),
            accesses=tuple(merge_accesses(accesses)), certain=certain, asynchronous=True, **details,
        )  # fmt: skip

    def lane(self, graph: int, expr: ir.Api) -> int:
        """The stream that the nodes of a graph are told to be on."""
        if graph not in self._lanes:
            written = expr.role("graph")
            name = written.name if isinstance(written, ir.Name | ir.Member) else "graph"
            made = self.stream_for(self.identity("lane", expr.span, str(graph)), name, StreamKind.GRAPH, False)
            self._lanes[graph] = made
        return self._lanes[graph]

    def _dependencies(
        self, nodes: Value | None, count: Value | None, given: bool, graph: int, state: State
    ) -> tuple[Done, tuple[int, ...]]:
        direct, known = self._listed(nodes, count, state)
        before = Done()
        for op in direct:
            before |= self.done_before(op).with_op(op)
        if not known and given:
            before |= Done(0, sum(1 << o for o in self.held(state, graph)))
        implied = 0
        for op in direct:
            implied |= self.before[op]
        return before, tuple(o for o in direct if not implied >> o & 1)

    def _listed(self, nodes: Value | None, count: Value | None, state: State) -> tuple[tuple[int, ...], bool]:
        """The ops of an array of nodes, and whether these are all."""
        if nodes is None or nodes == NULL or (isinstance(count, Num) and count.value.constant == 0):
            return (), True
        wanted = count.value.constant if isinstance(count, Num) else None
        found: list[int] = []
        for k in range(min(MAX_NODES, MAX_NODES if wanted is None else wanted)):
            place = self.element_of(nodes, number(k), state)
            held = state.load(place) if place is not None else None
            if not isinstance(held, Handle) or held.kind != "node":
                break
            found.append(held.id)
        return tuple(dict.fromkeys(found)), wanted is not None and len(found) == wanted

    def _add_dependencies(self, expr: ir.Api, state: State) -> None:
        values = self.roles(expr, state)
        count = values.get("arg4") if "arg4" in values and "arg5" in values else values.get("arg3")
        firsts, _ = self._listed(values.get("arg1"), count, state)
        seconds, _ = self._listed(values.get("arg2"), count, state)
        for first, second in zip(firsts, seconds, strict=False):
            done = self.before[first] | 1 << first
            graph = self.ops[second].graph
            if graph is None or self.ops[first].graph != graph:
                continue
            self.edges.append(Edge(first, second, "capture"))
            for op in self.held(state, graph):
                if op == second or self.before[op] >> second & 1:
                    self.before[op] |= done
                    for other in self.held(state, graph):  # what is after it now is not before it any more
                        if done >> other & 1:
                            self.earlier[other] &= ~(1 << op)

    # ---------------------------------------------------------------------------------------------------------- nodes

    def _node(
        self, kind: str, expr: ir.Api, values: dict[str, Value], place: Place | None, state: State
    ) -> tuple[list[Access], dict[str, str], bool]:
        """What a node of a kind touches, what else is to be told of it, and whether that is all."""
        if kind == "Kernel" and place is not None:
            return self._kernel_node(expr, place, state)
        if kind == "Memcpy":
            copied = self.understood(expr, values, state, place)
            return list(copied.accesses), {"copy_kind": copied.direction}, len(copied.accesses) == 2
        if kind == "Memset":
            given = {**values, **(self.fill_block(place, state) if place is not None else {})}
            filled = self.filled(given, ApiKind.MEMSET, gaps=False)
            return list(filled), {}, bool(filled)
        if kind == "Host" and place is not None:
            callback = self.part(place, "fn", state)
            data = self.part(place, "userData", state)
            touched, known = self.look_into(callback or NULL, [data if data is not None else NULL], expr.span, state)
            return list(touched), {}, known
        if kind == "MemFree":
            target = values.get("ptr") if place is None else self.part(place, "dptr", state)
            found = list(self.pointers_in(target, state)) if target is not None else []
            accesses = [
                Access(self.buffer_of(p.place.object), Mode.WRITE, Range(), Certainty.MUST, "ptr") for p in found[:1]
            ]
            return accesses, {}, bool(accesses)
        return [], {}, kind in ("Empty", "EventWait", "EventRecord", "MemAlloc", "ChildGraph", "Conditional")

    def _kernel_node(self, expr: ir.Api, place: Place, state: State) -> tuple[list[Access], dict[str, str], bool]:
        kernel = self.part(place, "func", state) or self.part(place, "kern", state) or Unknown(self.fresh("kernel"))
        packed = self.part(place, "kernelParams", state)
        args = self.packed_values(packed, state) if packed is not None else []
        grid, block = (self._node_dimensions(place, which, state) for which in ("gridDim", "blockDim"))
        written = ir.Launch(expr.span, ir.Name(expr.span, ""), None, None, None, None, (), expr.name)
        uids = self._kernels(kernel, len(args))
        name, accesses, _, certain = self._kernel_accesses(kernel, uids, written, args, grid, block, state)
        return accesses, {"kernel": name}, certain

    def _node_dimensions(self, place: Place, which: str, state: State) -> tuple[Value, ...]:
        value = self.part(place, which, state)
        if isinstance(value, Num):
            return (value,)
        parts = [self.part(place, f"{which}.{axis}", state) for axis in "xyz"]
        if parts[0] is None:  # the driver's structure: gridDimX
            parts = [self.part(place, f"{which}{axis}", state) for axis in "XYZ"]
        return tuple(p for p in parts if p is not None)

    def _allocated(self, op: int, expr: ir.Api, place: Place, state: State) -> None:
        """An allocation node gives its address at once; the memory is there while the graph runs."""
        size = self.part(place, "bytesize", state)
        obj = self.object_for(
            self.identity("alloc", expr.span), self.display(place.field("dptr")), origin="alloc", memory=Memory.DEVICE,
            size=size.value if isinstance(size, Num) else None, device=state.device, pooled=True, alloc_op=op,
        )  # fmt: skip
        self.buffer_of(obj.id)
        state.store(place.field("dptr"), Pointer(Place(obj.id), True, ZERO, None))

    def _child(
        self, op: int, kind: str, expr: ir.Api, values: dict[str, Value], place: Place | None, state: State
    ) -> None:
        if kind == "ChildGraph":
            child = values.get("arg4") if place is None else self.part(place, "graph", state)
            if isinstance(child, Handle) and child.kind == "graph":
                self._inner[op] = child.id
                accesses, _ = self._accesses_of(child.id, None, state, 0)
                self.ops[op] = replace(self.ops[op], accesses=tuple(merge_accesses(accesses)))
        elif place is not None:  # a conditional node makes its own graph, which the program fills afterwards
            graph = self.graph_for(self.identity("graph", expr.span, "body"))
            self.hold(state, graph, ())
            self._inner[op] = graph
            bodies = self.object_for(self.identity("bodies", expr.span), "phGraph_out", origin="alloc")
            state.store(Place(bodies.id).element(ZERO), Handle("graph", graph))
            state.store(place.field("phGraph_out"), Pointer(Place(bodies.id), True, ZERO, 8))

    def _set_parameters(self, expr: ir.Api, name: str, state: State) -> Value:
        """New parameters of a node: of the graph, or of one executable."""
        values = self.roles(expr, state)
        executable = values.get("exec")
        node = values.get("arg1") if executable is not None else values.get("arg0")
        if expr.kind is ApiKind.GRAPH_UPDATE:
            self.emit_host(state, expr.kind, expr.name, expr.span)
        if not isinstance(node, Handle) or node.kind != "node":
            return NULL
        kind = name.removeprefix("GraphExec").removeprefix("Graph").partition("Node")[0]
        place = self.block_place(values.get("params"), state)
        accesses, _, certain = self._node(kind, expr, values, place, state)
        if not certain:
            accesses = [replace(a, certainty=Certainty.MAY) for a in accesses]
        owner = executable if isinstance(executable, Handle) else None
        self._changed[owner, node.id] = tuple(accesses)
        return NULL

    # ------------------------------------------------------------------------------------------------------- launching

    def updated(self, values: dict[str, Value]) -> None:
        """`cudaGraphExecUpdate`: from here on the executable does what another graph says."""
        executable, graph = values.get("exec"), values.get("graph")
        if isinstance(executable, Handle) and isinstance(graph, Handle) and graph.kind == "graph":
            self._updated[executable] = graph.id

    def accesses_of_launch(self, executable: Handle, state: State) -> list[Access]:
        """All that the nodes touch (G5). Memory that the graph allocates is there again."""
        graph = self._updated.get(executable, executable.id)
        accesses, ops = self._accesses_of(graph, executable, state, 0)
        for op in ops:
            if self.ops[op].kind is ApiKind.ALLOC:
                for obj in self.objects:
                    if obj.alloc_op == op:
                        self.revive(state, ("memory", obj.id, 0))
        return accesses

    def _accesses_of(
        self, graph: int, executable: Handle | None, state: State, depth: int
    ) -> tuple[list[Access], list[int]]:
        accesses: list[Access] = []
        ops: list[int] = []
        for op in self.held(state, graph):
            ops.append(op)
            made = self.ops[op]
            mine = self._changed.get((executable, op), self._changed.get((None, op)))
            if mine is not None:
                accesses += mine
            elif op in self._inner and depth < 4:
                inner, below = self._accesses_of(self._inner[op], executable, state, depth + 1)
                accesses += inner
                ops += below
            elif made.kind not in (ApiKind.FREE, ApiKind.ALLOC):
                sure = made.certain
                accesses += [a if sure else replace(a, certainty=Certainty.MAY) for a in made.accesses]
        return accesses, ops
