"""Which of several functions of one name a call means, by the types of what it is given, and what their template parameters
stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from stitchcuda.analysis.order.host.names import CONTAINERS, DEVICE_CONTAINERS, plain
from stitchcuda.analysis.order.host.traits import KNOWN, canonical
from stitchcuda.analysis.program.ir import Function, TypeRef

_EXACT, _GENERIC, _CONVERTED, _NOTHING = 4, 2, 1, 1  # how well an argument fits; nothing is known of it


def best(
    functions: Sequence[Function],
    types: Sequence[TypeRef | None],
    known: Callable[[TypeRef], bool],
    bound: Callable[[Function], Mapping[str, TypeRef | None]],
) -> Function:
    """The one that fits best, the first of those that fit alike. `known` says whether a type is one of the program's, `bound`
    what the template parameters of a method's class stand for (None: not known)."""
    fits = [_fit(f, types, known, bound(f)) for f in functions]
    return functions[fits.index(max(fits))]


def _fit(
    function: Function,
    types: Sequence[TypeRef | None],
    known: Callable[[TypeRef], bool],
    bound: Mapping[str, TypeRef | None],
) -> int:
    total = 0
    for param, type in zip(function.params, types, strict=False):
        wanted: TypeRef | None = param.type
        if param.type.name in bound:
            given = bound[param.type.name]
            wanted = None if given is None else replace(given, pointer=given.pointer + param.type.pointer)
        one = _NOTHING if type is None or wanted is None else _fits(function, wanted, type, known)
        if one == 0:
            return 0
        total += one
    return total


def _fits(function: Function, param: TypeRef, type: TypeRef, known: Callable[[TypeRef], bool]) -> int:
    """0: it cannot be converted."""
    wanted, given = param.pointer + len(param.dims), type.pointer + len(type.dims)
    if param.name in function.template:
        return _GENERIC if wanted <= given else 0
    solid = canonical(param) in KNOWN and canonical(type) in KNOWN
    if wanted != given:
        return 0 if solid or (known(param) and known(type)) else _NOTHING
    if canonical(param) == canonical(type):
        return _EXACT
    if wanted:
        if canonical(param) == "void":
            return _CONVERTED
        return 0 if solid else _NOTHING
    return _CONVERTED


def deduced(function: Function, types: Sequence[TypeRef | None], bound: Mapping[str, TypeRef]) -> dict[str, TypeRef]:
    """The template parameters that a call does not name, from the types of the arguments. What `T& x` and `T&& x` are given is
    not told apart, and the second makes a reference of T: neither says what T is, except that containers are seldom forwarded."""
    found: dict[str, TypeRef] = {}
    for param, type in zip(function.params, types, strict=False):
        name = param.type.name
        if type is None or name not in function.template or name in bound or name in found or param.type.args:
            continue
        refers = param.type.reference and not param.type.const and not param.type.pointer
        if refers and (plain(type.name) not in CONTAINERS | DEVICE_CONTAINERS or _forwards(function)):
            continue
        pointer = type.pointer + len(type.dims) - param.type.pointer - len(param.type.dims)
        if pointer >= 0:
            found[name] = TypeRef(type.name, type.args, pointer)
    return found


def _forwards(function: Function) -> bool:
    return any(name.rpartition("::")[2] == "forward" for name in function.mentions)
