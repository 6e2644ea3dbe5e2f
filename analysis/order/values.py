"""What the symbolic executor computes with: values, places and objects.

An *object* is anything with an address: a variable, an array, a container's contents, an allocation. A *place* is an
object with a path of field names and element indexes into it. Objects, streams and events are identified by where and
in which loop iterations they were created, so that two groups of paths agree on them without talking to each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from stitchcuda.analysis.order.symbolic import ZERO, Poly
from stitchcuda.analysis.program.ir import Lambda, TypeRef
from stitchcuda.analysis.quick_init import quick_init

Step: TypeAlias = str | Poly  # a field name or an element index


@quick_init
@dataclass(frozen=True, slots=True)
class Place:
    """A variable, field or element: an object and the path into it."""

    object: int
    path: tuple[Step, ...] = ()

    def path_symbols(self) -> frozenset[str]:
        """The symbols in the indexes on the way."""
        return frozenset(s for step in self.path if isinstance(step, Poly) for s in step.symbols)

    def field(self, name: str) -> Place:
        return Place(self.object, (*self.path, name))

    def element(self, index: Poly) -> Place:
        return Place(self.object, (*self.path, index))


@quick_init
@dataclass(frozen=True, slots=True)
class Num:
    """An integer, a truth value that is known, or a null pointer (0)."""

    value: Poly


@quick_init
@dataclass(frozen=True, slots=True)
class Truth:
    """A truth value that is not known: an atom by name, or a combination. `op` is "atom", "not", "and" or "or". An atom
    that compares numbers is true when `low` >= 0 and false when it is not; with `exact`, when it is 0."""

    op: str
    key: str = ""
    parts: tuple[Truth, ...] = ()
    low: Poly | None = None
    exact: bool = False


@quick_init
@dataclass(frozen=True, slots=True)
class Text:
    value: str


@quick_init
@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of `place`, or of element `index` of the array at `place`. `index` counts elements of `element` bytes
    (None: size not known) and is None when it is not known."""

    place: Place
    array: bool = False
    index: Poly | None = ZERO
    element: int | None = None


@quick_init
@dataclass(frozen=True, slots=True)
class Handle:
    """A CUDA object: `kind` is "stream", "event", "graph" or "exec"; `id` indexes the Timeline's table of that kind
    (graphs: the executor's own)."""

    kind: str
    id: int
    made: int = 0  # tells executable graphs apart that were made of one graph


@quick_init
@dataclass(frozen=True, slots=True)
class Clock:
    """A reading of a host clock (an index into the executor's readings), or its negative."""

    reading: int
    negative: bool = False


@quick_init
@dataclass(frozen=True, slots=True)
class Instance:
    """A container or a smart pointer's target: an object reached through the variable that holds it."""

    object: int


@quick_init
@dataclass(frozen=True, slots=True)
class Struct:
    """A record by value: whoever stores it copies what lies below `place`."""

    place: Place


@quick_init
@dataclass(frozen=True, slots=True)
class Reference:
    """What a reference variable holds."""

    place: Place


@quick_init
@dataclass(frozen=True, slots=True)
class Code:
    """A function (or several overloads), possibly bound to an object."""

    uids: tuple[str, ...]
    this: Place | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Closure:
    node: Lambda
    function: str  # uid of the function it is written in
    scope: tuple[tuple[str, Place], ...]
    copies: tuple[tuple[str, Value], ...] = ()
    this: Place | None = None
    types: tuple[tuple[str, TypeRef], ...] = ()  # what the template parameters stood for where it was made
    packs: tuple[tuple[str, int], ...] = ()


@quick_init
@dataclass(frozen=True, slots=True)
class Either:
    """One of these, which one is not known: pointers, handles, functions. With one option: that, or nothing."""

    options: tuple[Value, ...]


@quick_init
@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything. `key` names the source of ignorance, so that the same unknown is recognised again."""

    key: str


Value: TypeAlias = (
    Num | Truth | Text | Pointer | Handle | Instance | Struct | Reference | Code | Closure | Clock | Either | Unknown
)

MAX_OPTIONS = 8  # things that an `Either` tells apart


def solid(value: Value | None) -> bool:
    """Values that name a thing: worth keeping as one of several when it is not known which one is meant."""
    return isinstance(value, Pointer | Handle | Instance | Code | Closure | Either)


def options_of(value: Value) -> tuple[Value, ...]:
    """What a value may be: itself, or each of its alternatives."""
    return value.options if isinstance(value, Either) else (value,)


def either(values: Iterable[Value]) -> Value | None:
    """One of several values; None when there are too many, or one of them names nothing."""
    options = tuple(dict.fromkeys(o for v in values for o in options_of(v)))
    if not options or len(options) > MAX_OPTIONS or not all(solid(o) for o in options):
        return None
    return options[0] if len(options) == 1 else Either(options)


@quick_init
@dataclass(frozen=True, slots=True)
class Identity:
    """What makes two creations one object: where, on which call path, in which iteration."""

    kind: str
    path: str
    function: str
    start: int
    end: int
    calls: tuple[tuple[str, int, int], ...]
    instance: tuple[Poly, ...]
    extra: str = ""

    def substitute(self, values: Mapping[str, Poly]) -> Identity:
        if all(values.keys().isdisjoint(p.symbols) for p in self.instance):
            return self
        instance = tuple(p.substitute(values) for p in self.instance)
        return Identity(self.kind, self.path, self.function, self.start, self.end, self.calls, instance, self.extra)


@dataclass(slots=True)
class Object:
    """Memory that the program names or makes: a variable, an allocation, a container, what a parameter points to."""

    id: int
    identity: Identity
    name: str
    type: TypeRef | None
    origin: str  # "local", "alloc", "global", "parameter", "unknown"
    memory: str  # a timeline.Memory value
    size: Poly | None = None  # bytes, when it stands for a block of memory
    count: Poly | None = None  # elements, for containers
    device: int | None = 0
    pooled: bool = False
    alloc_op: int | None = None
    named_at: int = 0  # call depth of the variable it is named after
    buffer: int | None = None  # its Timeline buffer, once an op touched it
    filled: bool = False  # a host function that was not looked into put something into it


SIZE = "#size"  # the number of elements, kept as a field of the container's object

SIZES: Mapping[str, int] = {
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "uchar": 1, "int8_t": 1, "uint8_t": 1, "std::byte": 1,
    "std::uint8_t": 1, "std::int8_t": 1,
    "short": 2, "unsigned short": 2, "int16_t": 2, "uint16_t": 2, "__half": 2, "half": 2, "__nv_bfloat16": 2,
    "std::uint16_t": 2, "std::int16_t": 2, "short int": 2, "unsigned short int": 2,
    "int": 4, "unsigned": 4, "unsigned int": 4, "float": 4, "int32_t": 4, "uint32_t": 4, "uint": 4, "half2": 4,
    "std::uint32_t": 4, "std::int32_t": 4, "signed": 4, "signed int": 4,
    "long": 8, "unsigned long": 8, "long long": 8, "unsigned long long": 8, "size_t": 8, "double": 8, "int64_t": 8,
    "uint64_t": 8, "std::size_t": 8, "float2": 8, "int2": 8, "ptrdiff_t": 8, "std::uint64_t": 8, "std::int64_t": 8,
    "long int": 8, "unsigned long int": 8, "long long int": 8, "unsigned long long int": 8, "uint2": 8,
    "double2": 16, "float4": 16, "int4": 16, "uint4": 16, "uchar4": 4, "char4": 4, "float3": 12, "int3": 12, "dim3": 12,
    "cudaStream_t": 8, "cudaEvent_t": 8,
    "cuComplex": 8, "cuFloatComplex": 8, "cufftComplex": 8, "cuDoubleComplex": 16, "cufftDoubleComplex": 16,
    "cufftReal": 4, "cufftDoubleReal": 8,
    **{f"{word}{n}": size * n for word, size in (
        ("char", 1), ("uchar", 1), ("short", 2), ("ushort", 2), ("int", 4), ("uint", 4), ("float", 4), ("longlong", 8),
        ("ulonglong", 8), ("double", 8)) for n in (1, 2, 3, 4)},
}  # fmt: skip


def size_of(type: TypeRef | None) -> int | None:
    """Bytes of a type on the 64-bit platforms CUDA supports; None when it is not a plain one."""
    if type is None or type.dims:
        return None
    if type.pointer:
        return 8
    return SIZES.get(type.name)


def pointee(type: TypeRef | None) -> TypeRef | None:
    """The type of what a pointer (or the element of an array) of this type is."""
    if type is None:
        return None
    if type.dims:
        return TypeRef(type.name, type.args, type.pointer, False, type.const, type.dims[1:])
    if type.pointer:
        return TypeRef(type.name, type.args, type.pointer - 1, False, type.const)
    return None
