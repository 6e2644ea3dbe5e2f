"""Launch configurations (`cudaLaunchConfig_t`, `CUlaunchConfig`): their attributes, and fields that are left at zero."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from stitchcuda.analysis.order.cuda.copy_blocks import CopyBlocks
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import number
from stitchcuda.analysis.order.values import Num, Place, Value
from stitchcuda.analysis.program import ir

COOPERATIVE = 2  # cudaLaunchAttributeCooperative
MAX_ATTRIBUTES = 16


class LaunchConfigs(CopyBlocks):
    """Layer of the executor: what a launch takes from its configuration."""

    def launch_stream(self, expr: ir.Launch, state: State) -> int:
        stream = expr.stream
        if isinstance(stream, ir.Member) and self._is_zero(stream, state):
            return self.default_stream(state)
        return super().launch_stream(expr, state)

    def is_cooperative(self, expr: ir.Launch, state: State) -> bool | None:
        if not isinstance(expr.stream, ir.Member) or expr.cooperative:
            return expr.cooperative
        count = ir.Member(expr.stream.span, expr.stream.base, "numAttrs")
        if self._is_zero(count, state):
            return False
        found = self.attributes(expr.stream.base, state)
        if found is None or any(which is None for which, _ in found):
            return None
        for which, one in found:
            allowed = self.part(one, "val.cooperative", state)
            if which == COOPERATIVE:
                known = isinstance(allowed, Num) and allowed.value.constant is not None
                return bool(allowed.value.constant) if isinstance(allowed, Num) and known else None
        return False

    def attributes(self, config: ir.Expr, state: State) -> list[tuple[int | None, Place]] | None:
        """The attributes of a configuration, each with its number; None when it is not known which there are."""
        place = self.locate(config, state)
        listed = self.part(place, "attrs", state) if place is not None else None
        count = self.part(place, "numAttrs", state) if place is not None else None
        if listed is None or not isinstance(count, Num) or count.value.constant is None:
            return None
        found: list[tuple[int | None, Place]] = []
        for k in range(min(count.value.constant, MAX_ATTRIBUTES)):
            one = self.element_of(listed, number(k), state)
            if one is None:
                return None
            which: Value | None = self.part(one, "id", state)
            found.append((which.value.constant if isinstance(which, Num) else None, one))
        return found

    def _is_zero(self, field: ir.Member, state: State) -> bool:
        """A field that nothing was written to since its structure was declared as `{}`."""
        base = field.base
        if not isinstance(base, ir.Name) or not self._declared_zero(self.frame.function, base.name):
            return False
        place = self.locate(base, state)
        held = self.part(place, field.name, state) if place is not None else None
        return place is not None and (held is None or held == Num(number(0)))

    def _declared_zero(self, function: ir.Function, name: str) -> bool:
        """A local structure of zeros that is only used field by field, so that no other code fills it."""
        known = self._zeros.get((function.uid, name))
        if known is None:
            known = self._zeros[function.uid, name] = function.body is not None and _starts_at_zero(function.body, name)
        return known

    @cached_property
    def _zeros(self) -> dict[tuple[str, str], bool]:
        return {}


def _starts_at_zero(body: ir.Stmt, name: str) -> bool:
    declared = [n for n in ir.walk(body) if isinstance(n, ir.Declare) and n.name == name]
    return len(declared) == 1 and _is_empty(declared[0].init) and not any(_as_a_whole(body, name))


def _is_empty(init: ir.Expr | None) -> bool:
    """`{}`, `{0}`"""
    if isinstance(init, ir.Construct):
        return not init.args
    if isinstance(init, ir.InitList):
        return all(isinstance(item, ir.Const) and not item.value or _is_empty(item) for item in init.items)
    return False


def _as_a_whole(node: ir.Expr | ir.Stmt, name: str) -> Iterator[ir.Expr]:
    """Uses of a variable other than through its fields and in questions to CUDA."""
    if isinstance(node, ir.Name) and node.name == name:
        yield node
    if isinstance(node, ir.Member) and isinstance(node.base, ir.Name) or isinstance(node, ir.Api):
        return
    for child in ir.children(node):
        yield from _as_a_whole(child, name)
