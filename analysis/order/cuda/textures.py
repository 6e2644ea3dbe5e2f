"""Texture and surface objects: a number that stands for the array or the memory that it was made of."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from stitchcuda.analysis.order.arithmetic import key_of
from stitchcuda.analysis.order.host.expressions import Expressions
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ZERO, number
from stitchcuda.analysis.order.timeline import Access, Certainty, Mode, Range, Shape
from stitchcuda.analysis.order.values import Num, Pointer, Struct, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Function

# The fields of a resource description that say what the object is made of.
_RESOURCE = frozenset({"array", "devPtr", "mipmap", "hArray", "hMipmappedArray"})


class Textures(Expressions):
    """Layer of the executor: what texture and surface objects stand for, and which kernels use them."""

    @cached_property
    def _fetched(self) -> dict[str, tuple[tuple[int, Range], ...]]:
        """What it is made of: the number of the memory, and where in it. By the key of the object's value, which goes along
        when it is passed on."""
        return {}

    def made_of(self, description: Value | None, made: Unknown, state: State) -> None:
        """A texture or surface object is made from the description of a resource."""
        place = self.pointed(description, state) if description is not None else None
        if place is None:
            return
        below = dict(state.below(place))
        held = [
            (pointer.place.object, self._range_of(pointer, below.get((*path[:-1], "sizeInBytes"))))
            for path, pointer in below.items()
            if path and path[-1] in _RESOURCE and isinstance(pointer, Pointer)
        ]
        if held:
            self._fetched[key_of(made)] = tuple(held)

    def _range_of(self, pointer: Pointer, size: Value | None) -> Range:
        extent = size.value if isinstance(size, Num) else None
        if pointer.place.path or pointer.index is None:
            return Range()
        if not pointer.index.terms and extent is None:
            return Range(ZERO, self.objects[pointer.place.object].size, None, Shape.WHOLE)
        shape = Shape.SOME if extent is None else Shape.WHOLE
        return Range(pointer.index * number(pointer.element or 1), extent, None, shape)

    def fetches(self, function: Function, args: list[Value], state: State) -> Iterator[Access]:
        """What a kernel does with the memory behind the objects that it is given."""
        if not self._fetched:
            return
        for param, arg in zip(function.params, args, strict=False):
            if not _names(function, param.name):
                continue
            values = [arg] if not isinstance(arg, Struct) else [v for path, v in state.below(arg.place) if path]
            for value in values:
                if not isinstance(value, Unknown):
                    continue
                for memory, where in self._fetched.get(value.key, ()):
                    for mode in _uses(function):
                        yield Access(self.buffer_of(memory), mode, where, Certainty.MAY, param.name)


def _names(function: Function, param: str) -> bool:
    """Whether a kernel does anything with a parameter."""
    body = function.body
    return function.has_error or (
        body is not None and any(isinstance(node, ir.Name) and node.name == param for node in ir.walk(body))
    )


def _uses(function: Function) -> Iterator[Mode]:
    """How a kernel may use an object, by the names of the functions that it calls: where, under which conditions, and of
    which of its objects is not known."""
    called = [name.rpartition("::")[2] for name in function.mentions]
    surfaces = [name for name in called if name.startswith("surf")]
    if any(name.endswith("write") for name in surfaces):
        yield Mode.WRITE
    if not surfaces or any(name.endswith("read") for name in surfaces) or any(n.startswith("tex") for n in called):
        yield Mode.READ
