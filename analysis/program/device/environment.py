"""What the walk looks up about a whole program: struct fields, device symbols, integer constants."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.program import ir

SCALARS = frozenset(
    ("bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed", "size_t", "ssize_t", "ptrdiff_t")
    + ("int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t")
    + ("half", "__half", "half2", "__half2", "__nv_bfloat16", "uint", "uchar", "ushort", "ulong")
    + tuple(
        f"{base}{width}" for base in ("char", "uchar", "short", "int", "uint", "float", "double") for width in "1234"
    )
)


def is_scalar(type_: ir.TypeRef) -> bool:
    return not type_.pointer and type_.name.removeprefix("std::").split(" ")[0] in SCALARS


@dataclass(frozen=True, slots=True)
class Environment:
    """`fields` gives the type of a struct field by its name alone, where all records of the program agree on its shape.
    `stamp` changes with the content."""

    fields: Mapping[str, ir.TypeRef]
    symbols: Mapping[str, ir.Declare]
    constants: Mapping[str, int]
    stamp: str


_kept: KeptWith[Environment] = KeptWith()


def environment_of(program: ir.Program) -> Environment:
    """Computed once for a program: the kernels of one program are asked about one after the other."""
    return _kept.get(program) or _kept.keep(program, _environment(program))


def _environment(program: ir.Program) -> Environment:
    fields: dict[str, ir.TypeRef] = {}
    clashing: set[str] = set()
    for record in program.records.values():
        for field in record.fields:
            known = fields.setdefault(field.name, field.type)
            if _form(known) != _form(field.type):
                clashing.add(field.name)
    for name in clashing:
        del fields[name]
    symbols: dict[str, ir.Declare] = {}
    constants: dict[str, int] = {}
    for module in program.modules.values():
        for declared in module.globals:
            number = declared.type.const and is_scalar(declared.type) and declared.init is not None
            if declared.space in ("device", "constant", "managed") and not (number and not declared.type.dims):
                symbols[declared.name] = declared
        for name, expr in module.constants:
            if isinstance(expr, ir.Const) and isinstance(expr.value, int):
                constants.setdefault(name, int(expr.value))
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(fields):
        digest.update(f"{name} {_form(fields[name])} {fields[name].name};".encode())
    for name in sorted(symbols):
        digest.update(f"{name} {symbols[name].space} {_form(symbols[name].type)};".encode())
    digest.update(repr(sorted(constants.items())).encode())
    return Environment(fields, symbols, constants, digest.hexdigest())


def _form(type_: ir.TypeRef) -> tuple[int, int, bool]:
    return type_.pointer, len(type_.dims), is_scalar(type_)
