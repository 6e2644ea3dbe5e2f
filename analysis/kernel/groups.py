"""Cooperative groups, barriers and pipelines as objects: what their methods and free functions do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from stitchcuda.analysis.kernel import intrinsics as known
from stitchcuda.analysis.kernel.expressions import Expressions
from stitchcuda.analysis.kernel.lanes import ZERO, Form, number, symbol
from stitchcuda.analysis.kernel.model import BarrierKind, Buffer, Memory, Mode, Uniformity
from stitchcuda.analysis.kernel.values import DATA, UNKNOWN, Cell, Group, Place, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.known_calls import bare

_KINDS = {
    "block": BarrierKind.BLOCK,
    "grid": BarrierKind.GRID,
    "cluster": BarrierKind.CLUSTER,
    "tile": BarrierKind.WARP,
    "coalesced": BarrierKind.WARP,
    "barrier": BarrierKind.NAMED,
    "pipeline": BarrierKind.NAMED,
    "thread": BarrierKind.FENCE,
}
_TYPES = {
    "thread_block": "block",
    "thread_block_tile": "tile",
    "grid_group": "grid",
    "cluster_group": "cluster",
    "coalesced_group": "coalesced",
    "barrier": "barrier",
    "pipeline": "pipeline",
    "thread_group": "any",
}
_COLLECTIVE = ("shfl", "any", "all", "ballot", "match_any", "match_all")
# Classes of CUB whose calls exchange through the storage they are given. Not those that load and store: they need it for
# some of their ways only.
_BLOCK_CLASSES = frozenset(
    f"Block{name}"
    for name in (
        "AdjacentDifference",
        "Discontinuity",
        "Exchange",
        "Histogram",
        "MergeSort",
        "RadixSort",
        "Reduce",
        "Scan",
    )
)
_COLLECTIVE_FUNCTIONS = frozenset({"reduce", "inclusive_scan", "exclusive_scan", "invoke_one", "invoke_one_broadcast"})


class GroupCalls(Expressions, ABC):
    @abstractmethod
    def _copy(self, span: ir.Span, to: Sequence[Place], source: Sequence[Place], count: int | None) -> None: ...

    def typed_group(self, type_name: str) -> Group | None:
        kind = _TYPES.get(bare(type_name))
        if kind is None or bare(type_name) == type_name and kind in ("barrier", "pipeline"):
            return None
        return Group(kind)

    def group_function(self, name: str, node: ir.Call) -> Value | None:
        """Free functions of cooperative groups and of libcu++."""
        if name in known.GROUPS and not node.args:
            kind = known.GROUPS[name]
            return Value(group=Group(kind, 32 if kind == "coalesced" else 0))
        if name == "tiled_partition":
            return self._tile(node)
        if name in ("labeled_partition", "binary_partition"):
            self.value(node.args[0])
            return Value(group=Group("coalesced", 32))
        if name in ("make_pipeline",):
            return Value(group=Group("pipeline"))
        if name == "memcpy_async":
            return self._memcpy_async(node)
        if name in ("pipeline_consumer_wait_prior",):
            left = self._template_number(node)
            self.barrier(BarrierKind.WAIT, name, node.span, pending=left)
            return UNKNOWN
        if not node.args or name not in ("sync", "wait", "wait_prior", "init", *_COLLECTIVE_FUNCTIONS):
            return None
        values = [self.value(a) for a in node.args]
        group = values[0].group
        if group is None:
            return None
        if name == "sync":
            self._sync(group, name, node.span)
            return UNKNOWN
        if name in ("wait", "wait_prior"):
            # the wait of a group: copies done, and the group meets
            pending = -1 if name == "wait" else self._template_number(node)
            self.barrier(BarrierKind.WAIT, name, node.span, pending=pending)
            self._sync(group, name, node.span)
            return UNKNOWN
        if name in _COLLECTIVE_FUNCTIONS:
            if group.width and group.width <= 32:
                self.barrier(BarrierKind.COLLECTIVE, name, node.span, width=group.width)
            else:
                self.barrier(BarrierKind.NAMED, name, node.span)
            return DATA
        return UNKNOWN

    def block_storage(self, made: ir.Expr) -> tuple[Place, ...]:
        """The shared memory that a class of CUB is given on the spot, as in `BlockReduce(temp).Sum(x)`."""
        match made:
            case ir.Call(callee=ir.Name(name=name), args=(given,)):
                pass
            case ir.Construct(type=type, args=(given,)):
                name = type.name
            case _:
                return ()
        known_class = bare(self.resolved(ir.TypeRef(name)).name)
        if known_class not in _BLOCK_CLASSES or self.program.by_name.get(known_class) or self.width <= 32:
            return ()
        places = tuple([p for p in self.locations(given) if isinstance(p, Place)])
        return places if len(places) == 1 and self.in_shared_memory(places[0]) else ()

    def block_call(self, storage: Place, name: str, span: ir.Span) -> None:
        """All threads write the storage, meet, and read what others wrote there: the end of the call is no barrier."""
        start = storage.offset or ZERO
        for mode, place in ((Mode.WRITE, self.linear), (Mode.READ, number(self.width - 1) - self.linear)):
            offset = start + (place * number(4) or ZERO)
            self.access(replace(storage, offset=offset, element="int", dims=()), mode, span)
            if mode is Mode.WRITE:
                self.barrier(BarrierKind.NAMED, name, span)

    def in_shared_memory(self, place: Place) -> bool:
        return isinstance(place.target, Buffer) and place.target.memory is Memory.SHARED

    def _template_number(self, node: ir.Call) -> int | None:
        callee = node.callee
        given = callee.template[0] if isinstance(callee, ir.Name) and callee.template else None
        if given is None or isinstance(given, ir.TypeRef):
            return None
        value = self.value(given).number
        return value.constant if value is not None else None

    def _tile(self, node: ir.Call) -> Value:
        callee = node.callee
        width: int | None = None
        given = callee.template[0] if isinstance(callee, ir.Name) and callee.template else None
        if isinstance(given, ir.TypeRef):
            given = ir.Name(node.span, given.name)
        if given is not None:
            value = self.value(given).number
            width = value.constant if value is not None else None
        elif len(node.args) > 1:
            value = self.value(node.args[1]).number
            width = value.constant if value is not None else None
        for arg in node.args[:1]:
            self.value(arg)
        return Value(group=Group("tile", width if width is not None else -1))

    def _memcpy_async(self, node: ir.Call) -> Value:
        """`memcpy_async(group, dst, src, size)`, or with a barrier or pipeline at the end, or `(dst, src, size, pipe)`."""
        values = [self.value(a) for a in node.args]
        places = [v.places for v in values if v.places]
        objects = [v.group for v in values if v.group is not None]
        shared = [v for v in values if v.group is not None and v.group.kind in ("barrier", "pipeline")]
        to = places[0] if places else ()
        source = places[1] if len(places) > 1 else ()
        if objects and objects[0].kind in ("block", "tile", "any", "coalesced"):  # the group shares the work
            to = tuple(replace(p, offset=None) for p in to)
            source = tuple(replace(p, offset=None) for p in source)
        if shared and all(v.group is not None and v.group.kind == "pipeline" for v in shared):
            self._copy(node.span, to, source, None)  # complete when a consumer has waited
            return DATA
        if shared or any(getattr(p.target, "element", "").endswith(("barrier", "pipeline")) for q in places for p in q):
            self._copy(node.span, (), source, None)  # waited for through the object: not followed
            return DATA
        self._copy(node.span, to, source, None)
        self.barrier(BarrierKind.COMMIT, "memcpy_async", node.span)  # each is a group of its own
        return DATA

    def group_call(self, group: Group, callee: ir.Member, node: ir.Call) -> Value:
        name = callee.name
        values = [self.value(arg) for arg in node.args]
        if name == "map_shared_rank" and values and values[0].places:
            return Value(places=tuple(map(_of_another_block, values[0].places)))
        if name in ("sync", "barrier_wait", "arrive_and_wait"):
            self._sync(group, f"{_shown(callee.base)}.{name}", node.span)
            return UNKNOWN
        if name.startswith(_COLLECTIVE) and group.kind in ("tile", "coalesced"):
            width = group.width if group.width > 0 else 32
            self.barrier(BarrierKind.COLLECTIVE, f"{_shown(callee.base)}.{name}", node.span, width=width)
            return DATA if name.startswith("shfl") else Value(self.math.fresh("^"), spread=Uniformity.WARP)
        if name in ("thread_rank", "thread_index", "group_index", "meta_group_rank", "block_rank", "block_index"):
            return self._rank(group, name)
        if name in ("size", "num_threads", "group_dim", "dim_threads", "meta_group_size", "num_blocks"):
            return self._size_of(group, name)
        if name == "is_valid":
            return Value(symbol("is_valid"))
        if known.SYNCHRONISING.search(name) or group.kind in ("barrier", "pipeline"):
            if "commit" in name:
                self.barrier(BarrierKind.COMMIT, name, node.span)
            elif "consumer_wait" in name or name == "wait":
                self.barrier(BarrierKind.WAIT, name, node.span, pending=None)
            self.barrier(BarrierKind.NAMED, name, node.span)
        return DATA

    def _sync(self, group: Group, name: str, span: ir.Span) -> None:
        kind = _KINDS.get(group.kind, BarrierKind.NAMED)
        if group.kind == "tile" and not 0 < group.width <= 32:
            kind = BarrierKind.NAMED
        width = group.width if kind is BarrierKind.WARP else 0
        self.barrier(kind, name, span, width=width or (32 if kind is BarrierKind.WARP else 0))

    def _rank(self, group: Group, name: str) -> Value:
        if name == "thread_index":
            return self._triple("threadIdx")
        if name in ("group_index", "block_index"):
            return self._triple("blockIdx")
        if name == "thread_rank" and group.kind == "block":
            return Value(self.linear)
        if group.kind == "tile" and group.width > 0:
            op = "%" if name == "thread_rank" else "/"
            return Value(self.math.binary(op, self.linear, number(group.width)))
        if group.kind == "grid" and name == "thread_rank":
            return Value(self.linear + (symbol("blockIdx.x") * number(self.width) or ZERO))
        if group.kind == "cluster" and name == "block_rank":
            return Value(symbol("cluster.rank"))
        return Value(self.math.fresh("~"), spread=Uniformity.DATA)

    def _triple(self, word: str) -> Value:
        cell = Cell(ir.TypeRef("dim3"), UNKNOWN, self.full)
        for axis in "xyz":
            held: Form = self.coordinates.get(f"{word}.{axis}") or symbol(f"{word}.{axis}")
            cell.fields[axis] = Cell(ir.TypeRef("unsigned"), Value(held), self.full)
        return Value(record=cell)

    def _size_of(self, group: Group, name: str) -> Value:
        if name in ("group_dim", "dim_threads"):
            return self._triple("blockDim")
        if group.kind == "block":
            return Value(number(self.width))
        if group.kind == "tile" and group.width > 0:
            if name == "meta_group_size":
                return Value(number(-(-self.width // group.width)))
            return Value(number(group.width))
        if group.kind == "coalesced":
            return Value(self.math.fresh("^"), spread=Uniformity.WARP)
        return Value(symbol(f"{group.kind}.{name}"))


def _of_another_block(place: Place) -> Place:
    if not isinstance(place.target, Buffer) or place.target.memory is not Memory.SHARED:
        return place
    return replace(place, target=replace(place.target, memory=Memory.CLUSTER))


def _shown(node: ir.Expr) -> str:
    if isinstance(node, ir.Name):
        return node.name
    if isinstance(node, ir.Call):
        return f"{_shown(node.callee)}()"
    return node.name if isinstance(node, ir.Member) else "group"
