"""Which bytes well-known host functions touch behind the pointers that they are given."""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.analysis.order.arithmetic import NULL
from stitchcuda.analysis.order.symbolic import ZERO, Poly, at_least, number
from stitchcuda.analysis.order.timeline import Range, Shape
from stitchcuda.analysis.order.values import Num, Pointer, Value
from stitchcuda.analysis.program.ir import Expr, Name

# name -> (position of the pointer, positions whose product is the number of bytes)
_BYTES = {
    "memcpy": ((0, 1), (2,)), "memmove": ((0, 1), (2,)), "memset": ((0,), (2,)), "memcmp": ((0, 1), (2,)),
    "fread": ((0,), (1, 2)), "fwrite": ((0,), (1, 2)), "read": ((1,), (2,)), "write": ((1,), (2,)),
    "pread": ((1,), (2,)), "pwrite": ((1,), (2,)), "recv": ((1,), (2,)), "send": ((1,), (2,)), "bzero": ((0,), (1,)),
}  # fmt: skip
# name -> (positions of pointers, position of the number of elements)
_ELEMENTS = {"fill_n": ((0,), 1), "generate_n": ((0,), 1), "copy_n": ((0, 2), 1), "for_each_n": ((0,), 1)}
# the number of elements is that between the first two arguments
_BETWEEN = frozenset(
    [
        "fill",
        "iota",
        "generate",
        "sort",
        "stable_sort",
        "reverse",
        "shuffle",
        "random_shuffle",
        "accumulate",
        "reduce",
        "max_element",
        "min_element",
        "minmax_element",
        "inner_product",
        "equal",
        "for_each",
        "find",
        "count",
        "count_if",
        "all_of",
        "any_of",
        "none_of",
        "partial_sum",
        "copy",
        "transform",
        "nth_element",
        "swap_ranges",
        "copy_backward",
        "replace",
    ]
)


def touched(name: str, position: int, values: Sequence[Value]) -> Range | None:
    """The range that an argument stands for (name without `std::`); None when it is only the end of another's."""
    value = values[position]
    between = name in _BETWEEN and len(values) > 1 and isinstance(values[1], Pointer)
    if between and position == 1:
        return None
    if not isinstance(value, Pointer) or value.index is None or value.place.path:
        return Range()
    if value.element is None and value.index.terms:
        return Range()
    start = value.index * number(value.element or 1)
    extent = _extent(name, position, values, value, between)
    return Range(
        start, extent, None, Shape.SOME if extent is None or name in ("fread", "read", "recv") else Shape.WHOLE
    )


def counted(pointer: Pointer, size: Value) -> Range:
    """So many bytes from where a pointer points to, at most."""
    if pointer.index is None or pointer.place.path or (pointer.element is None and pointer.index.terms):
        return Range()
    return Range(pointer.index * number(pointer.element or 1), size.value if isinstance(size, Num) else None)


# MPI: the bytes of one element of a type
_MESSAGE_TYPES = {
    "BYTE": 1, "CHAR": 1, "SIGNED_CHAR": 1, "UNSIGNED_CHAR": 1, "INT8_T": 1, "UINT8_T": 1, "SHORT": 2, "UNSIGNED_SHORT": 2,
    "INT": 4, "UNSIGNED": 4, "INT32_T": 4, "UINT32_T": 4, "FLOAT": 4, "DOUBLE": 8, "INT64_T": 8, "UINT64_T": 8,
    "LONG_LONG": 8, "LONG_LONG_INT": 8, "UNSIGNED_LONG_LONG": 8,
}  # fmt: skip


def message(name: str, position: int, values: Sequence[Value], args: Sequence[Expr]) -> Range:
    """What an MPI call sends from or receives into: the number of elements and their type follow the pointer, or the second
    of two pointers. A gather or scatter may use more than that."""
    value = values[position]
    start = counted(value, NULL) if isinstance(value, Pointer) else Range()
    if start.offset is None:
        return start
    start = Range(start.offset)
    count, kind = position + 1, position + 2
    if count < len(values) and isinstance(values[count], Pointer):
        count, kind = count + 1, kind + 1
    type = args[kind] if kind < len(args) else None
    size = _MESSAGE_TYPES.get(type.name.removeprefix("MPI_")) if isinstance(type, Name) else None
    number_of = values[count] if count < len(values) else None
    if size is None or not isinstance(number_of, Num) or "all" in name.lower() and "reduce" not in name.lower():
        return start
    return Range(start.offset, number_of.value * number(size))


def both(a: Range, b: Range) -> Range:
    """One range that holds two accesses."""
    if a == b or None in (a.offset, a.extent, b.offset, b.extent) or a.stride is not None or b.stride is not None:
        return a if a == b else Range()
    assert a.offset is not None and a.extent is not None and b.offset is not None and b.extent is not None
    if a.member != b.member:
        return Range()
    first, second = (a, b) if at_least(b.offset, a.offset) else (b, a)
    assert first.offset is not None and first.extent is not None and second.offset is not None
    assert second.extent is not None
    low, end = first.offset, first.offset + first.extent
    last = second.offset + second.extent
    if not at_least(second.offset, low) or at_least(last, end) is None:
        return Range()
    whole = Shape.WHOLE if a.shape is b.shape is Shape.WHOLE and at_least(end, second.offset) else Shape.SOME
    return Range(low, (last if at_least(last, end) else end) - low, None, whole, a.member)


def _extent(name: str, position: int, values: Sequence[Value], value: Pointer, between: bool) -> Poly | None:
    if name in _BYTES and position in _BYTES[name][0]:
        total = number(1)
        for factor in _BYTES[name][1]:
            size = values[factor] if factor < len(values) else None
            if not isinstance(size, Num):
                return None
            total = total * size.value
        return total
    if value.element is None:
        return None
    if name in _ELEMENTS and position in _ELEMENTS[name][0]:
        count = values[_ELEMENTS[name][1]]
        return count.value * number(value.element) if isinstance(count, Num) else None
    first, last = values[0], values[1] if len(values) > 1 else None
    if not between or not isinstance(first, Pointer) or not isinstance(last, Pointer):
        return None
    if first.place != last.place or first.index is None or last.index is None:
        return None
    elements = last.index - first.index
    return elements * number(value.element) if at_least(elements, ZERO) is not False else None
