"""Type traits of the C++ library: what `std::is_same_v<T, float>` says about types that are known."""

from __future__ import annotations

from collections.abc import Container, Sequence

from stitchcuda.analysis.order.host.names import plain
from stitchcuda.analysis.program.ir import TypeRef

_FLOATING = frozenset({"float", "double", "long double"})
_SPELLINGS = {
    "unsigned": "unsigned int", "uint": "unsigned int", "uint32_t": "unsigned int", "int32_t": "int", "signed": "int",
    "int8_t": "signed char", "uint8_t": "unsigned char", "uchar": "unsigned char", "int16_t": "short",
    "short int": "short", "uint16_t": "unsigned short", "ushort": "unsigned short", "unsigned short int": "unsigned short",
    "int64_t": "long", "long int": "long", "uint64_t": "unsigned long", "ulong": "unsigned long", "size_t": "unsigned long",
    "half": "__half", "nv_bfloat16": "__nv_bfloat16",
}  # fmt: skip
_INTEGERS = frozenset({
    "bool", "char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long",
    "unsigned long", "long long", "unsigned long long",
})  # fmt: skip
_OTHERS = frozenset({"__half", "__half2", "__nv_bfloat16", "__nv_bfloat162", "void"})
KNOWN = _FLOATING | _INTEGERS | _OTHERS
# which of these a name stands for differs by system
_LONG = frozenset({"long", "unsigned long", "long long", "unsigned long long"})


def is_trait(name: str) -> bool:
    """Whether a function-like name is a trait of the library: `std::is_same<T, float>()`."""
    return _bare(name) in ("is_same", "is_floating_point", "is_integral", "is_arithmetic", "is_pointer", "is_void")


def _bare(name: str) -> str:
    return plain(name.removesuffix("::value")).removesuffix("_v")


def of_the_library(name: str, known: Container[str]) -> bool:
    """It is not a template of the program's own that is named like one of the library's. `known`: classes of the program."""
    whole = name.removesuffix("::value").removeprefix("::")
    scope, _, last = whole.rpartition("::")
    return scope in ("std", "cuda::std", "thrust") or not scope and last not in known


def told(name: str, types: Sequence[TypeRef]) -> bool | None:
    """The value of a trait; None where the types do not say."""
    trait = _bare(name)
    if trait == "is_same":
        return _same(types[0], types[1]) if len(types) == 2 else None
    if len(types) != 1:
        return None
    type = types[0]
    if trait == "is_pointer":
        return True if type.pointer else False if canonical(type) in KNOWN else None
    kind = canonical(type)
    if type.pointer:
        return False
    if kind not in KNOWN or type.reference or type.dims:
        return None
    match trait:
        case "is_floating_point":
            return kind in _FLOATING
        case "is_integral":
            return kind in _INTEGERS
        case "is_arithmetic":
            return kind in _FLOATING | _INTEGERS
        case "is_void":
            return kind == "void"
    return None


def canonical(type: TypeRef) -> str:
    """One name for all spellings of a type, without its pointers."""
    name = plain(type.name)
    return _SPELLINGS.get(name, name)


def _same(one: TypeRef, other: TypeRef) -> bool | None:
    a, b = canonical(one), canonical(other)
    if a not in KNOWN or b not in KNOWN or one.reference or other.reference or one.dims or other.dims:
        return None
    if one.pointer != other.pointer:
        return False
    if a != b:
        return None if {a, b} <= _LONG else False
    return True if one.const == other.const else None
