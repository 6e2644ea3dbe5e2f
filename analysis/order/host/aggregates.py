"""Pairs and tuples of the C++ library, and what structured bindings name: parts of a value, by their position."""

from __future__ import annotations

from stitchcuda.analysis.order.host.names import Names, plain
from stitchcuda.analysis.order.symbolic import integer
from stitchcuda.analysis.program.ir import TypeRef

_PAIR = ("first", "second")
BINDING = "structured binding"  # the `Opaque` that a bound name is initialised with: of which variable, which part


def is_aggregate(type: TypeRef | None) -> bool:
    """`std::pair` or `std::tuple`, by value."""
    return type is not None and not type.pointer and not type.dims and plain(type.name) in ("pair", "tuple")


def part(type: TypeRef | None, position: int, names: Names) -> str | None:
    """The field that a part of a value is kept in; None when the type has no such parts."""
    if type is None or type.pointer or type.dims:
        return None
    word = plain(type.name)
    if word == "pair":
        return _PAIR[position] if 0 <= position < 2 else None
    if word == "tuple":
        return str(position)
    record = names.record(type)
    own = [f for f in record.fields if not f.static] if record is not None else []
    return own[position].name if 0 <= position < len(own) else None


def part_type(type: TypeRef, field: str) -> TypeRef | None:
    """The type of a part of a pair or tuple, as far as its arguments say."""
    position = _PAIR.index(field) if field in _PAIR else integer(field)
    return type.args[position] if position is not None and position < len(type.args) else None
