"""Static members: which class a name means, and which instantiation of a class template.

`Pool<float>::first` and `Pool<double>::first` are two variables that are written in one place, and `Reader::buffer` is
another variable than `Writer::buffer`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from stitchcuda.analysis.program.ir import Const, Declare, Expr, Function, Name, Program, Record, TypeRef

_ARGUMENTS = re.compile(r"<.*>", re.DOTALL)
_BASES = 32  # classes looked through


def owner_of(declared: str) -> str:
    """The innermost scope of a declared name: `Pool` of `lib::Pool<float>::first`."""
    scope = _ARGUMENTS.sub("", declared).rpartition("::")[0]
    return scope.rpartition("::")[2].strip()


def fitting(
    found: list[tuple[str, Declare]], name: str, record: str, records: Collection[str]
) -> list[tuple[str, Declare]]:
    """Of variables of one name those that a name in a method of `record` can mean: members of the class, else of none."""
    if len(found) < 2:
        return found
    owner = owner_of(name) or record.rpartition("::")[2]
    own = [f for f in found if owner and owner_of(f[1].name) == owner]
    return own or [f for f in found if owner_of(f[1].name) not in records] or found


def parameters(program: Program, function: Function) -> tuple[str, ...]:
    """The template parameters of the class that a method belongs to."""
    record = program.records.get(function.record)
    methods = [program.functions[uid].template for uid in record.methods] if record is not None else []
    return function.template[: min((len(each) for each in methods), default=len(function.template))]


def parameters_of(program: Program, record: Record) -> tuple[str, ...]:
    """The template parameters of a class, as its methods have them: those that all of them begin with."""
    methods = [program.functions[uid].template for uid in record.methods]
    return min(methods, key=len, default=())


def arguments(record: Record | None, names: tuple[str, ...], args: tuple[TypeRef, ...]) -> dict[str, TypeRef]:
    """What the template parameters of a class stand for: what is given, else what the class says."""
    given = dict(zip(names, args, strict=False))
    for name, default in record.defaults if record is not None else ():
        if name in names and name not in given:
            given[name] = given.get(default.name, default) if not default.args and not default.pointer else default
    return given


def as_base(
    type: TypeRef, wanted: Callable[[Record], bool], program: Program, record_of: Callable[[TypeRef], Record | None]
) -> TypeRef | None:
    """The class itself, or the base of it, that is `wanted`, with the arguments that the classes on the way give it."""
    waiting = [type]
    for current in waiting:
        record = record_of(TypeRef(current.name))
        if record is None or wanted(record):
            return current if record is not None else None
        given = arguments(record, parameters_of(program, record), current.args)
        if len(waiting) < _BASES:
            waiting += [_with_arguments(base, given) for base in record.base_types]
    return None


def declaring(
    type: TypeRef, record: Record, field: str, program: Program, record_of: Callable[[TypeRef], Record | None]
) -> tuple[TypeRef, Record]:
    """The class that declares a field: itself or a base of it, as it has it."""

    def declares(one: Record) -> bool:
        return any(each.name == field for each in one.fields)

    base = None if declares(record) else as_base(type, declares, program, record_of)
    found = record_of(TypeRef(base.name)) if base is not None else None
    return (type, record) if base is None or found is None else (base, found)


def _with_arguments(type: TypeRef, given: Mapping[str, TypeRef]) -> TypeRef:
    """A type with template parameters filled in."""
    bound = given.get(type.name)
    if bound is not None and not type.args:
        return replace(bound, pointer=bound.pointer + type.pointer, const=bound.const or type.const)
    return replace(type, args=tuple(_with_arguments(each, given) for each in type.args)) if type.args else type


def as_member(type: TypeRef, program: Program, function: Function, types: Mapping[str, TypeRef]) -> TypeRef:
    """The name of a class template within the class stands for the instantiation that runs."""
    if type.args or not function.template or not function.record or not types:
        return type
    if type.name.rpartition("::")[2] != function.record.rpartition("::")[2]:
        return type
    given = [types.get(name) for name in parameters(program, function)]
    bound = tuple(each for each in given if each is not None)
    return replace(type, args=bound) if len(bound) == len(given) else type


def instantiation(
    declared: str,
    template: tuple[Expr | TypeRef, ...],
    program: Program,
    function: Function,
    types: Mapping[str, TypeRef],
) -> str:
    """The arguments of the class template whose static member is meant, as text; empty when there are none or not known."""
    if "<" not in declared:
        return ""
    if template:
        return ",".join(_shown(each, types) for each in template)
    if owner_of(declared) != function.record.rpartition("::")[2]:
        return ""
    given = [types.get(name) for name in parameters(program, function)]
    return ",".join(_shown(each, types) for each in given if each is not None) if all(given) else ""


def bound_to(function: Function, types: Mapping[str, TypeRef]) -> str:
    """The arguments that a template runs with, as text."""
    return ",".join(_shown(types[name], {}) for name in function.template if name in types)


def _shown(given: Expr | TypeRef, types: Mapping[str, TypeRef]) -> str:
    if isinstance(given, TypeRef):
        bound = types.get(given.name)
        inner = f"<{','.join(_shown(each, types) for each in given.args)}>" if given.args else ""
        return (_shown(bound, {}) if bound is not None else given.name + inner) + "*" * given.pointer
    if isinstance(given, Name):
        return _shown(TypeRef(given.name), types)
    return str(given.value) if isinstance(given, Const) else "?"
