"""Values of the walk over one kernel: numbers of all lanes, pointers, local variables, decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from stitchcuda.analysis.kernel.lanes import Form, number, per_lane, symbol
from stitchcuda.analysis.kernel.model import Buffer, Guard, Mask, Uniformity
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.quick_init import quick_init

_RANK = {Uniformity.BLOCK: 0, Uniformity.WARP: 1, Uniformity.THREAD: 2, Uniformity.DATA: 3}


def wider(*spreads: Uniformity) -> Uniformity:
    """The one that says least."""
    return max(spreads, key=_RANK.__getitem__, default=Uniformity.BLOCK)


@dataclass(eq=False, slots=True)
class Cell:
    """A local variable. `lanes` are those that were active when it was declared: writing all of them replaces the value."""

    type: ir.TypeRef
    value: Value
    lanes: Mask
    fields: dict[str, Cell] = field(default_factory=dict)
    elements: dict[int, Cell] = field(default_factory=dict)
    array: bool = False
    dims: tuple[Form, ...] = ()
    parameter: str = ""  # a struct parameter: its members are parameters too, by this prefix
    born: int = field(default_factory=count().__next__)  # in order of time


@quick_init
@dataclass(frozen=True, slots=True)
class Place:
    """Memory: a location when it stands for itself, what a pointer points to when it is held by a `Value`. `dims` are the
    dimensions of the array that lies there (of each array that is pointed to); none for a scalar."""

    target: Buffer | Cell
    offset: Form | None  # in bytes; None is unknown in every lane
    element: str = ""
    dims: tuple[Form, ...] = ()
    field: str = ""
    volatile: bool = False
    outside: Mask = 0  # lanes whose index into a row is beyond the row
    row: tuple[Form, int] | None = None  # where the row starts that it was made from, and its bytes
    part: Form | None = None  # an element of what a pointer variable points to: the offset that the variable holds

    def moved(self, by: Form | None) -> Place:
        offset = None if by is None or self.offset is None else self.offset + by
        return Place(self.target, offset, self.element, self.dims, self.field, self.volatile, self.outside, self.row)


Location: TypeAlias = Cell | Place


@quick_init
@dataclass(frozen=True, slots=True)
class Group:
    """A cooperative group. `width` 0 is the whole block."""

    kind: str  # "block" | "tile" | "coalesced" | "grid" | "cluster" | "thread" | "barrier" | "pipeline"
    width: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A lambda with what surrounds the place where it is written."""

    function: ir.Lambda
    scopes: tuple[dict[str, Location | tuple[Location, ...]], ...]
    owner: ir.Function
    this: tuple[Location, ...] = ()
    bindings: Mapping[str, Form | ir.TypeRef] = field(default_factory=dict)


@quick_init
@dataclass(frozen=True, slots=True)
class Decision:
    """A condition in all lanes: known true in `yes`, known false in `no`; elsewhere, `when_true` and `when_false` are the
    guards under which it is taken the one way and the other."""

    yes: Mask
    no: Mask
    when_true: tuple[Guard, ...] = ()
    when_false: tuple[Guard, ...] = ()

    def where(self, lanes: Mask, other: Decision) -> Decision:
        """This one in some lanes, the other elsewhere."""
        return Decision(
            self.yes & lanes | other.yes & ~lanes,
            self.no & lanes | other.no & ~lanes,
            (*self.when_true, *other.when_true),
            (*self.when_false, *other.when_false),
        )

    def negated(self) -> Decision:
        return Decision(self.no, self.yes, self.when_false, self.when_true)


@quick_init
@dataclass(frozen=True, slots=True)
class Value:
    """`number` is None for what is not followed (floating point, structs): `spread` then says how it varies."""

    number: Form | None = None
    places: tuple[Place, ...] = ()
    spread: Uniformity = Uniformity.BLOCK
    closure: Closure | None = None
    group: Group | None = None
    record: Cell | None = None
    decision: Decision | None = None
    function: str = ""  # the name of a function

    def of_record(self, record: Cell) -> Value:
        """The same value, held by a record."""
        return Value(
            self.number, self.places, self.spread, self.closure, self.group, record, self.decision, self.function
        )


UNKNOWN = Value()
DATA = Value(spread=Uniformity.DATA)

_SIZES: dict[str, int] = {
    **dict.fromkeys(("bool", "char", "signed char", "unsigned char", "int8_t", "uint8_t", "uchar", "byte"), 1),
    **dict.fromkeys(("char1", "uchar1", "__nv_fp8_e4m3", "__nv_fp8_e5m2"), 1),
    **dict.fromkeys(("short", "unsigned short", "int16_t", "uint16_t", "ushort", "half", "__half"), 2),
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "short int", "unsigned short int"), 2),
    **dict.fromkeys(("int", "unsigned", "unsigned int", "signed int", "signed", "float", "int32_t", "uint32_t"), 4),
    **dict.fromkeys(("uint", "half2", "__half2", "__nv_bfloat162", "nv_bfloat162"), 4),
    **dict.fromkeys(("long", "unsigned long", "long long", "unsigned long long", "double", "int64_t", "uint64_t"), 8),
    **dict.fromkeys(("size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t", "clock_t", "ulong"), 8),
    **dict.fromkeys(("long int", "unsigned long int", "long long int", "unsigned long long int"), 8),
    **dict.fromkeys(("long long unsigned int", "long unsigned int", "ulonglong", "longlong"), 8),
}
_VECTORS = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4, "double": 8, "longlong": 8}
_VECTORS |= {"ulonglong": 8, "long": 8, "ulong": 8}
_VECTOR_TYPES: dict[str, tuple[str, int]] = {}
for _base, _size in _VECTORS.items():
    for _count in (2, 3, 4):
        _SIZES[f"{_base}{_count}"] = _size * _count
        _VECTOR_TYPES[f"{_base}{_count}"] = (_base, _size)
_FLOATS = frozenset({"float", "double", "half", "__half", "__nv_bfloat16", "nv_bfloat16", "half2", "__half2", "float2"})
_FLOATS |= {"float1", "float3", "float4", "double1", "double2", "double3", "double4", "__nv_bfloat162", "tf32"}
_LANES = {"x": 0, "y": 1, "z": 2, "w": 3}
_UNSIGNED = {"unsigned": 32, "unsigned int": 32, "uint": 32, "uint32_t": 32, "unsigned char": 8, "uint8_t": 8}
_UNSIGNED |= {"unsigned short": 16, "uint16_t": 16, "uchar": 8, "ushort": 16, "size_t": 64, "uint64_t": 64}
_UNSIGNED |= {"unsigned long": 64, "unsigned long long": 64, "unsigned long long int": 64}
_SIGNED = {"int": 32, "int32_t": 32, "short": 16, "int16_t": 16, "signed char": 8, "int8_t": 8}


def plain_name(name: str) -> str:
    return name.removeprefix("const ").removeprefix("volatile ").removeprefix("std::").removeprefix("cuda::std::")


def size_of(element: str) -> int | None:
    name = plain_name(element)
    return 8 if name.endswith("*") else _SIZES.get(name)


def size_form(element: str) -> Form:
    known = size_of(element)
    return number(known) if known is not None else symbol(f"sizeof({plain_name(element)})")


def is_float(element: str) -> bool:
    return plain_name(element) in _FLOATS


def component(element: str, member: str) -> tuple[str, int] | None:
    """Type and byte offset of `.x` and its kin in a built-in vector type."""
    known = _VECTOR_TYPES.get(plain_name(element))
    if known is None or member not in _LANES:
        return None
    return known[0], known[1] * _LANES[member]


def wrapped(value: Form, type_name: str) -> Form:
    """What is left of a number in a variable of this integer type."""
    exact = value.exact
    if exact is None:
        return value
    name = plain_name(type_name)
    if (width := _UNSIGNED.get(name)) is not None:
        top = 1 << width
        low, high = 0, top - 1
    elif (width := _SIGNED.get(name)) is not None:
        top = 1 << width
        low, high = -(top >> 1), (top >> 1) - 1
    else:
        return value
    if isinstance(exact, int):
        return value if low <= exact <= high else number((exact - low) % top + low)
    if exact.within(low, high):
        return value
    return per_lane(tuple([(x - low) % top + low for x in exact.values]))
