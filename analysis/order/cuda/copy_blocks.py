"""Copies, fills and nodes that are described by a structure: what its fields say (C9)."""

from __future__ import annotations

from stitchcuda.analysis.order.cuda.launches import Launches
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ONE, Poly, equal, number
from stitchcuda.analysis.order.values import Num, Place, Pointer, Struct, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import TypeRef

# The functions that fill CUDA's small structures, and the fields in the order of their arguments.
MAKERS = {
    "make_cudaPitchedPtr": ("ptr", "pitch", "xsize", "ysize"),
    "make_cudaExtent": ("width", "height", "depth"),
    "make_cudaPos": ("x", "y", "z"),
}


class CopyBlocks(Launches):
    """Layer of the executor: the structures that describe copies and fills."""

    def made_structure(self, name: str, expr: ir.Call, values: list[Value], state: State) -> Value:
        """`make_cudaExtent(w, h, d)` and its like."""
        obj = self.object_for(
            self.identity("structure", expr.span, name), name, type=TypeRef(name.removeprefix("make_"))
        )
        place = Place(obj.id)
        state.clear_below(place)
        for field, value in zip(MAKERS[name], values, strict=False):
            state.store(place.field(field), value)
        return Struct(place)

    def block_place(self, value: Value | None, state: State) -> Place | None:
        """The structure that a `params` argument points to."""
        return None if value is None else self.pointed(value, state)

    def part(self, place: Place, path: str, state: State) -> Value | None:
        """The value of a field (`srcPtr.ptr`) that the program has written; None when it has not."""
        for name in path.split("."):
            held = state.load(place)
            place = (held.place if isinstance(held, Struct) else place).field(name)
        value = state.load(place)
        return value if value is not None else Struct(place) if any(True for _ in state.below(place)) else None

    def copy_block(self, place: Place, state: State) -> dict[str, Value]:
        """`dst`, `src`, `kind` and, when the rows lie without gaps, `bytes`, of a cudaMemcpy3DParms, cudaMemcpy3DPeerParms,
        CUDA_MEMCPY2D or CUDA_MEMCPY3D."""
        out: dict[str, Value] = {}
        kind = self.part(place, "kind", state)
        if kind is not None:
            out["kind"] = kind
        for role, side in (("dst", "dst"), ("src", "src")):
            value = self._side(place, side, state)
            if value is not None:
                out[role] = value
        size = self._dense_bytes(place, state)
        if size is not None:
            out["bytes"] = Num(size)
        return out

    def _side(self, place: Place, side: str, state: State) -> Value | None:
        for field in (f"{side}Ptr.ptr", f"{side}Device", f"{side}Host"):
            value = self.part(place, field, state)
            if isinstance(value, Pointer):
                moved = any(
                    isinstance(at, Num | Unknown) and at != Num(number(0))
                    for at in (self.part(place, f"{side}{where}", state) for where in _STARTS)
                )
                return Pointer(value.place, value.array, None, value.element) if moved else value
            if value is not None and not isinstance(value, Num):
                return value
        array = self.part(place, f"{side}Array", state)
        if isinstance(array, Pointer):  # positions in an array are no addresses: any part of it
            return Pointer(array.place, array.array, None, array.element)
        return array if array is not None and not isinstance(array, Num) else None

    def _dense_bytes(self, place: Place, state: State) -> Poly | None:
        """Width by height by depth, when the pitch of both sides is the width or there is one row only."""
        width, height, depth = (
            self._first(place, names, state)
            for names in (("extent.width", "WidthInBytes"), ("extent.height", "Height"), ("extent.depth", "Depth"))
        )
        if width is None or height is None:
            return None
        depth = ONE if depth is None else depth
        if height.constant == 1 and depth.constant == 1:
            return width
        for side in ("src", "dst"):
            pitch = self._first(place, (f"{side}Ptr.pitch", f"{side}Pitch"), state)
            rows = self._first(place, (f"{side}Ptr.ysize", f"{side}Height"), state)
            if pitch is None or equal(pitch, width) is not True:
                return None
            if depth.constant != 1 and (rows is None or equal(rows, height) is not True):
                return None
        return width * height * depth

    def _first(self, place: Place, names: tuple[str, ...], state: State) -> Poly | None:
        for name in names:
            value = self.part(place, name, state)
            if isinstance(value, Num):
                return value.value
        return None

    def fill_block(self, place: Place, state: State) -> dict[str, Value]:
        """`dst` and, for one row, `bytes` of a cudaMemsetParams."""
        out: dict[str, Value] = {}
        target = self.part(place, "dst", state)
        if target is not None:
            out["dst"] = target
        width, height, size = (self._first(place, (name,), state) for name in ("width", "height", "elementSize"))
        if width is not None and size is not None and height is not None and height.constant == 1:
            out["bytes"] = Num(width * size)
        return out


_STARTS = ("Pos.x", "Pos.y", "Pos.z", "XInBytes", "Y", "Z")
