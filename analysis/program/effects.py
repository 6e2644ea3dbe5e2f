"""What a kernel does to the memory it is given, by parameter.

Computed once for a kernel from its body and the device functions it calls, and kept until one of their texts changes.
A parameter may have several entries: one for each member it reaches and each way of access.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.order.symbolic import ONE, Poly
from stitchcuda.analysis.order.timeline import Certainty, Mode, Shape
from stitchcuda.analysis.program.device.environment import environment_of, is_scalar
from stitchcuda.analysis.program.device.values import Touch, larger, smaller
from stitchcuda.analysis.program.device.walk import DeviceWalk
from stitchcuda.analysis.program.ir import Function, Lambda, Param, Program


@dataclass(frozen=True, slots=True)
class ParamEffect:
    """Accesses through one parameter. `first` and `extent` bound the elements touched: `[first, first + extent)`, counted
    in `element`s from where the pointer points, as polynomials over the names of integer parameters (members spelled
    `args.n`) and `gridDim.x`, `blockDim.x`, ...; None is unknown."""

    name: str
    modes: frozenset[Mode]
    certainty: Certainty
    shape: Shape
    element: str = ""  # type of the element accessed; "" when accesses differ or it is not known
    member: str = (
        ""  # path to the pointer: "" the parameter itself, "data", "inner.data", "[]" what its elements point to
    )
    first: Poly | None = None
    extent: Poly | None = None
    fields: frozenset[str] = frozenset()  # of the records that are accessed, with their type; empty: not only fields


@dataclass(frozen=True, slots=True)
class KernelEffects:
    """What one kernel does to the memory behind its parameters and to device symbols."""

    params: tuple[ParamEffect, ...]
    symbols: tuple[tuple[str, Mode], ...]  # `__device__` and `__constant__` variables by name
    prints: bool = False  # device printf or assert: a host wait flushes it
    # runs code or uses an address that a template argument, another file or a number supplies: it may do anything
    supplied: bool = False
    calls_unknown: bool = False  # a pointer reaches code without a body; what is listed for it is `may`

    def of(self, name: str) -> tuple[ParamEffect, ...]:
        return tuple(e for e in self.params if e.name == name)


@dataclass(frozen=True, slots=True)
class Functor:
    """A lambda that a launch gives to a kernel's parameter. What it captured counts as members of the parameter."""

    function: Lambda
    captured: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Used:
    """What a kernel's effects were computed from, besides its own text: device functions and what names meant."""

    digests: tuple[tuple[str, str], ...]
    lookups: tuple[tuple[str, tuple[str, ...]], ...]

    def still_holds(self, program: Program) -> bool:
        return all(program.by_name.get(name, ()) == uids for name, uids in self.lookups) and all(
            uid in program.functions and program.functions[uid].digest == digest for uid, digest in self.digests
        )


_UNKNOWN_KERNEL = KernelEffects((), (), calls_unknown=True)
_cache: KeptWith[dict[tuple[str, str], tuple[_Used, KernelEffects]]] = KeptWith()  # by body; uid, environment
_RANGES = 9  # of one parameter, as of a stencil in two dimensions
_PROGRAMS = 8  # that share a body, and what its names meant


def kernel_effects(program: Program, kernel_uid: str, functors: Mapping[str, Functor] | None = None) -> KernelEffects:
    """Effects of the kernel; for one that is only declared, what its parameter types allow. `functors`: lambdas by the
    parameter that receives them."""
    function = program.functions.get(kernel_uid)
    if function is None:
        return _UNKNOWN_KERNEL
    if function.body is None:
        return _declared_only(program, function)
    if functors:  # each launch has its own
        walk = DeviceWalk(program)
        walk.kernel(function, {name: (f.function, f.captured) for name, f in functors.items()})
        return _summarise(function, walk)
    key = (kernel_uid, environment_of(program).stamp)
    of_body = _cache.get(function.body) or {}
    known = of_body.get(key) if function.digest else None
    if known is not None and known[0].still_holds(program):
        return known[1]
    walk = DeviceWalk(program)
    walk.kernel(function)
    effects = _summarise(function, walk)
    if function.digest:
        if len(of_body) >= _PROGRAMS:
            of_body.clear()
        seen = walk.visited.union(*walk.lookups.values())
        digests = tuple((uid, program.functions[uid].digest) for uid in sorted(seen))
        of_body[key] = (_Used(digests, tuple(sorted(walk.lookups.items()))), effects)
        _cache.keep(function.body, of_body)
    return effects


def _summarise(function: Function, walk: DeviceWalk) -> KernelEffects:
    groups: dict[tuple[str, str, Mode], list[Touch]] = {}
    for touch in walk.touches:
        groups.setdefault(touch.key, []).append(touch)
    order = {f"p:{p.name}": k for k, p in enumerate(function.params)}
    merged: dict[ParamEffect, set[Mode]] = {}
    symbols: dict[tuple[str, Mode], None] = {}
    for (root, member, mode), touches in sorted(
        groups.items(), key=lambda item: (order.get(item[0][0], 1 << 30), item[0][1], item[0][2].value)
    ):
        if root.startswith("s:"):
            symbols[(root[2:], mode)] = None
            continue
        for alike in _apart(touches):
            merged.setdefault(_effect(root[2:], member, alike), set()).add(mode)
    params = [replace(effect, modes=frozenset(modes)) for effect, modes in merged.items()]
    if walk.incomplete:  # the walk gave up: the rest is what the types allow
        listed = {(e.name, m) for e in params for m in e.modes}
        params += [
            replace(e, modes=frozenset(m for m in e.modes if (e.name, m) not in listed))
            for e in _declared_only(walk.program, function).params
            if any((e.name, m) not in listed for m in e.modes)
        ]
    return KernelEffects(tuple(params), tuple(symbols), walk.prints, walk.supplied, walk.calls_unknown)


def _apart(touches: list[Touch]) -> list[list[Touch]]:
    """Accesses by the range that they have, when there are few: what a stencil reads at its own element is told apart from
    what it reads beside it. One group otherwise."""
    groups: dict[tuple[Poly | None, Poly | None], list[Touch]] = {}
    for touch in touches:
        groups.setdefault((touch.low, touch.high), []).append(touch)
    if len(groups) > _RANGES or any(low is None or high is None for low, high in groups):
        return [touches]
    if all(low == high for low, high in groups):  # single elements
        return [touches]
    return list(groups.values())


def _effect(name: str, member: str, touches: list[Touch]) -> ParamEffect:
    certainty = Certainty.MUST if any(t.certainty is Certainty.MUST for t in touches) else Certainty.MAY
    elements = {t.element for t in touches}
    element = next(iter(elements)) if len(elements) == 1 else ""
    low, high = touches[0].low, touches[0].high
    for touch in touches[1:]:
        low, high = smaller(low, touch.low), larger(high, touch.high)
    if len(elements) > 1:
        low = high = None  # positions of different units do not compare
    own = all(t.own for t in touches) and len(elements) == 1
    return ParamEffect(
        name,
        frozenset(),
        certainty,
        Shape.THREAD if own else Shape.SOME,
        element,
        member,
        low,
        high - low + ONE if high is not None and low is not None else None,
        frozenset(t.field for t in touches) if all(t.field for t in touches) else frozenset(),
    )


def _declared_only(program: Program, function: Function) -> KernelEffects:
    params: list[ParamEffect] = []
    unknown = False
    for param in function.params:
        if param.type.pointer:
            params.append(_allowed(param, param.type.const, param.type.name, ""))
        elif not is_scalar(param.type):
            record = program.records.get(param.type.name)
            if record is None:
                unknown = True
                continue
            params += [_allowed(param, f.type.const, f.type.name, f.name) for f in record.fields if f.type.pointer]
    return KernelEffects(tuple(params), (), calls_unknown=unknown)


def _allowed(param: Param, const: bool, element: str, member: str) -> ParamEffect:
    modes = frozenset({Mode.READ}) if const else frozenset({Mode.READ, Mode.WRITE})
    return ParamEffect(param.name, modes, Certainty.MAY, Shape.SOME, element, member)
