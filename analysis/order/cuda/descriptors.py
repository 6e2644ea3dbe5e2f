"""Descriptors of cuSPARSE: a matrix or a vector stands for the memory on the device that it was made of.

What a function does with each is not told: the last one that it is given is what it computes.
"""

from __future__ import annotations

import re
from functools import cached_property

from stitchcuda.analysis.order.arithmetic import key_of
from stitchcuda.analysis.order.cuda.handouts import Handouts
from stitchcuda.analysis.order.cuda.launches import range_behind
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.timeline import Access, Certainty, Mode
from stitchcuda.analysis.order.values import Pointer, Unknown, Value
from stitchcuda.analysis.program import ir

_MAKES = re.compile(r"cusparseCreate(?:Const)?(?:\w+Mat|\w+Vec|Csr|Csc|Coo|Bsr|BlockedEll|SlicedEll)$")
_SETS = re.compile(r"cusparse\w+Set(?:Pointers|Values|Pointer)$")
_PREPARES = re.compile(r"_(?:analysis|preprocess|workEstimation|estimateMemory)$")


class Descriptors(Handouts):
    """Layer of the executor: what descriptors stand for."""

    @cached_property
    def _described(self) -> dict[str, tuple[Pointer, ...]]:
        """By the key of the descriptor's value, which goes along when it is passed on."""
        return {}

    def describe(self, expr: ir.Api, values: dict[str, Value], made: Value | None, state: State) -> None:
        """A call that makes a descriptor (`made`), or gives one other memory."""
        descriptor = made if _MAKES.match(expr.name) else values.get("handle") if _SETS.match(expr.name) else None
        if not isinstance(descriptor, Unknown):
            return
        held = [p for role, v in values.items() if role != "handle" for p in self.pointers_in(v, state)]
        on_device = [p for p in held if self.may_be_on_device(p)]
        if on_device:
            self._described[key_of(descriptor)] = tuple(on_device)

    def accesses_of_descriptors(self, expr: ir.Api, values: dict[str, Value]) -> list[Access]:
        """What a call of the library does with the memory behind the descriptors that it is given."""
        given = [key_of(v) for v in values.values() if isinstance(v, Unknown) and v.key in self._described]
        found: list[Access] = []
        for position, key in enumerate(given):
            result = position == len(given) - 1 and _PREPARES.search(expr.name) is None
            for pointer in self._described[key]:
                where = range_behind(pointer)
                buffer = self.buffer_of(pointer.place.object)
                modes = (Mode.READ, Mode.WRITE) if result else (Mode.READ,)
                found += [Access(buffer, mode, where, Certainty.MAY) for mode in modes]
        return found
