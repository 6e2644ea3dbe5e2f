"""Texture and surface objects: a number that stands for the array or the memory that it was made of."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from stitchcuda.analysis.order.arithmetic import key_of
from stitchcuda.analysis.order.host.expressions import Expressions
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ZERO
from stitchcuda.analysis.order.timeline import Access, Certainty, Mode, Range, Shape
from stitchcuda.analysis.order.values import Pointer, Struct, Unknown, Value
from stitchcuda.analysis.program.ir import Function

# The fields of a resource description that say what the object is made of.
_RESOURCE = frozenset({"array", "devPtr", "mipmap", "hArray", "hMipmappedArray"})


class Textures(Expressions):
    """Layer of the executor: what texture and surface objects stand for, and which kernels use them."""

    @cached_property
    def _fetched(self) -> dict[str, tuple[Pointer, ...]]:
        """By the key of the object's value, which goes along when it is passed on."""
        return {}

    def made_of(self, description: Value | None, made: Unknown, state: State) -> None:
        """A texture or surface object is made from the description of a resource."""
        place = self.pointed(description, state) if description is not None else None
        if place is None:
            return
        held = [v for path, v in state.below(place) if path and path[-1] in _RESOURCE and isinstance(v, Pointer)]
        if held:
            self._fetched[key_of(made)] = tuple(held)

    def fetches(self, function: Function, args: list[Value], state: State) -> Iterator[Access]:
        """What a kernel does with the memory behind the objects that it is given."""
        if not self._fetched:
            return
        for param, arg in zip(function.params, args, strict=False):
            values = [arg] if not isinstance(arg, Struct) else [v for path, v in state.below(arg.place) if path]
            for value in values:
                if not isinstance(value, Unknown):
                    continue
                for pointer in self._fetched.get(value.key, ()):
                    for mode, certainty in _uses(function):
                        where = Range(ZERO, self.objects[pointer.place.object].size, None, Shape.WHOLE)
                        yield Access(self.buffer_of(pointer.place.object), mode, where, certainty, param.name)


def _uses(function: Function) -> Iterator[tuple[Mode, Certainty]]:
    """How a kernel uses an object, by the names of the functions that it calls. Layers of one array are as good as arrays
    of their own."""
    called = [name.rpartition("::")[2] for name in function.mentions]
    fetches = [name for name in called if name.startswith("tex")]
    whole = fetches and not any("Layered" in name or "Cubemap" in name for name in fetches)
    if any(name.startswith("surf") and name.endswith("write") for name in called):
        yield Mode.WRITE, Certainty.MAY
    if any(name.startswith("surf") and name.endswith("read") for name in called):
        yield Mode.READ, Certainty.MAY
    elif fetches or not any(name.startswith("surf") for name in called):
        yield Mode.READ, Certainty.MUST if whole else Certainty.MAY
