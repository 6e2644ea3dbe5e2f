"""Memory and kernels that the program did not make and that a call hands out: graphics resources, memory of other
processes, symbols and functions of modules."""

from __future__ import annotations

import re

from stitchcuda.analysis.order.cuda.stream_memory import StreamMemory
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ZERO
from stitchcuda.analysis.order.timeline import Memory
from stitchcuda.analysis.order.values import Code, Num, Place, Pointer, Text, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr

_MANGLED = re.compile(r"_Z(?:N[\dA-Za-z_]*?)?(\d{1,9})(\w+)")


class Handouts(StreamMemory):
    """Layer of the executor: calls whose out-argument receives the address of something that exists already."""

    def handed_out(self, expr: ir.Api, values: dict[str, Value], state: State) -> Value:
        """The value that `out` receives."""
        if "function" in expr.flags:
            return self._function_named(values.get("kernel"), expr.role("kernel"))
        if "symbol" in expr.flags:
            place = self._symbol_named(expr.role("src"), values.get("src"))
            return Pointer(place, True, ZERO, None) if place is not None else Unknown(self.fresh("pointer"))
        source = values.get("src")
        if "resource" in expr.flags or (source is not None and not isinstance(source, Pointer)):
            return self._resource(expr, values, state)
        if not isinstance(source, Pointer):
            return Unknown(self.fresh("pointer"))
        obj = self.objects[source.place.object]
        if obj.memory == Memory.PINNED.value:  # C12: the device reaches it from here on
            obj.memory = Memory.MAPPED.value
            self.refresh_buffer(obj.id)
        return source

    def _resource(self, expr: ir.Api, values: dict[str, Value], state: State) -> Value:
        """Device memory that somebody else allocated: it begins here as far as the program is concerned."""
        if "src" in values and "resource" not in expr.flags and "array" not in expr.flags and expr.role("flags"):
            return Unknown(self.fresh("pointer"))  # a device address of host memory that is not known
        size = values.get("bytes")
        obj = self.object_for(
            self.identity("alloc", expr.span), self.out_name(expr, self.out_place(expr, state)), origin="alloc",
            memory=Memory.DEVICE, size=size.value if isinstance(size, Num) else None, device=state.device,
        )  # fmt: skip
        return Pointer(Place(obj.id), True, ZERO, None)

    def _symbol_named(self, written: Expr | None, value: Value | None) -> Place | None:
        """A device variable, named as such or by a string."""
        return self.variable(_source_name(value.value)) if isinstance(value, Text) else self.symbol_place(written)

    def _function_named(self, value: Value | None, written: Expr | None) -> Value:
        """A kernel, named as such or by a string, mangled or not."""
        if isinstance(value, Code):
            return value
        if isinstance(value, Text):
            name = _source_name(value.value)
            uids = tuple(u for u in self.program.by_name.get(name, ()) if self.program.functions[u].space == "global")
            return Code(uids, None, name)
        return Unknown(self.fresh("kernel"))


def _source_name(text: str) -> str:
    """The name in the source of a symbol: `_Z3addPfi` is `add`."""
    found = _MANGLED.match(text)
    if found is None:
        return text.rpartition("::")[2]
    return found.group(2)[: int(found.group(1))]
