"""Missing stages of a program, which are kernels that are declared and not defined, and that a comment asks for: each marker with
the kernel that it is about and the reference that it names, or what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from stitchcuda.agent.implementing.marker import Marker, MarkerError, markers
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import AddressOf, Function, Launch, Name, Param, Program, TypeRef, bare, walk
from stitchcuda.analysis.program.link import resolve
from stitchcuda.analysis.syntax.text import LineIndex

COMPILED = (".cu", ".cpp", ".cc", ".cxx")  # a definition in another file would be compiled more than once
_BETWEEN = re.compile(rb"(?:\s|//[^\r\n]*|/\*.*?\*/)*(?P<c>extern\s*\"C\"\s*)?", re.DOTALL)
_OPAQUE = re.compile(r"cuda(Texture|Surface)Object_t")


@dataclass(frozen=True)
class Launched:
    """Where the kernel is launched: `text` is the launch as it stands there, on one line."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Stage:
    """A kernel to be written. `[start, end)` are the bytes of its declaration in `marker.path`, without a byte-order mark; `file` is
    where the definition goes. `parameters` are the kernel's, each named. `declare` says that the reference stands below the
    declaration, so that it has to be declared above it."""

    marker: Marker
    kernel: Function
    reference: Function
    parameters: tuple[Param, ...]
    texts: tuple[str, ...]  # of the parameters
    start: int
    end: int
    file: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    declare: bool
    launches: tuple[Launched, ...]

    @property
    def path(self) -> str:
        return self.marker.path

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def namespace(self) -> str:
        return self.kernel.qualified.rpartition("::")[0]


def find_stages(analysis: Analysis) -> tuple[Stage | MarkerError, ...]:
    """All markers of a program, by file and line."""
    found: list[Stage | MarkerError] = []
    for path in sorted(analysis.sources):
        if path.endswith((".py", ".pyi")):
            continue
        for marker in markers(path, analysis.sources[path]):
            if isinstance(marker, MarkerError):
                found.append(marker)
                continue
            try:
                found.append(_stage(analysis, marker))
            except MarkerError as error:
                found.append(error)
    return tuple(found)


def _stage(analysis: Analysis, marker: Marker) -> Stage:
    program, text = analysis.program, analysis.sources[marker.path]
    kernel, start = _below(program, marker, text)
    if kernel.space != "global":
        raise _error(
            marker,
            f"`{kernel.name}` is no kernel: only a declared __global__ function can be implemented in this version",
        )
    if kernel.template:
        raise _error(marker, f"`{kernel.name}` is a template: declare the kernel for the types that are launched")
    _must_be_missing(analysis, marker, kernel)
    parameters = tuple(p if p.name else replace(p, name=f"parameter{k}") for k, p in enumerate(kernel.params, 1))
    for parameter in parameters:
        _must_be_plain(program, marker, parameter)
    reference = _reference(program, marker, kernel, parameters)
    outputs = marker.outputs if marker.outputs is not None else tuple(p.name for p in parameters if _writable(p))
    inputs = marker.inputs if marker.inputs is not None else tuple(p.name for p in parameters if p.name not in outputs)
    _must_be_parameters(marker, kernel, parameters, outputs, inputs)
    stage = Stage(
        marker,
        kernel,
        reference,
        parameters,
        tuple(_text(text, kernel, given, named) for given, named in zip(kernel.params, parameters, strict=True)),
        start,
        kernel.base + kernel.span[1],
        _file(program, marker),
        outputs,
        inputs,
        _is_below(program, marker, kernel, reference),
        tuple(_launches(analysis, marker, kernel)),
    )
    if not stage.launches and not any(kernel.name in f.mentions for f in program.functions.values()):
        raise _error(marker, f"nothing launches `{kernel.name}`: there is no run that could show whether it is right")
    return stage


def _error(marker: Marker, what: str) -> MarkerError:
    return MarkerError(marker.path, marker.line, what)


# ---------------------------------------------------------------------------------------------------------- the kernel


def _below(program: Program, marker: Marker, text: bytes) -> tuple[Function, int]:
    """The declaration right below the comment, and where it starts."""
    match = _BETWEEN.match(text, marker.end)
    assert match is not None
    here = [f for f in program.functions.values() if f.path == marker.path and f.base == match.end()]
    if not here:
        raise _error(marker, "no declaration follows: put the comment right above `__global__ void NAME(...);`")
    if here[0].body is not None:
        raise _error(
            marker,
            f"`{here[0].name}` is defined already: remove the comment, or write `implemented` for `implement` in it",
        )
    return here[0], match.start("c") if match["c"] else here[0].base


def _must_be_missing(analysis: Analysis, marker: Marker, kernel: Function) -> None:
    program = analysis.program
    for uid in program.by_name.get(kernel.name, ()):
        other = program.functions[uid]
        if other.qualified == kernel.qualified and len(other.params) == len(kernel.params):
            where = f"{other.path}:{_line(analysis, other)}"
            raise _error(
                marker, f"`{kernel.name}` is defined already, at {where}: remove the comment, or the definition"
            )
    for uid in program.declarations.get(kernel.name, ()):
        other = program.functions[uid]
        if other.qualified == kernel.qualified and uid != kernel.uid:
            where = f"{other.path}:{_line(analysis, other)}"
            raise _error(
                marker, f"`{kernel.name}` is declared again at {where}: keep the declaration below the comment alone"
            )


def _line(analysis: Analysis, function: Function) -> int:
    return LineIndex.of(analysis.sources[function.path]).line_at(function.base) + 1


def _must_be_plain(program: Program, marker: Marker, parameter: Param) -> None:
    """The reference is given a copy of what a pointer points to: nothing may hide behind it."""
    kind = flat(parameter.type)
    why = ""
    if parameter.default is not None:
        why = "has a default argument, which a launch of the reference would not see"
    elif kind.pointer > 1 or kind.dims or "(" in kind.name:
        why = "points to pointers or arrays"
    elif kind.reference:
        why = "is a reference"
    elif _OPAQUE.fullmatch(kind.name):
        why = "is a texture or surface"
    elif hides := _pointers_in(program, kind.name):
        why = f"is a `{kind.name}`, which holds the pointer `{hides}`"
    if why:
        raise _error(marker, f"the parameter `{parameter.name}` {why}; a reference is given numbers and flat buffers")


def _pointers_in(program: Program, name: str, depth: int = 0) -> str:
    record = program.records.get(name)
    if record is None or depth > 8:
        return ""
    for member in record.fields:
        if member.type.pointer or member.type.reference:
            return member.name
        if inner := _pointers_in(program, member.type.name, depth + 1):
            return f"{member.name}.{inner}"
    return ""


def _writable(parameter: Param) -> bool:
    kind = flat(parameter.type)
    return kind.pointer > 0 and not kind.const


def _must_be_parameters(
    marker: Marker, kernel: Function, parameters: tuple[Param, ...], outputs: tuple[str, ...], inputs: tuple[str, ...]
) -> None:
    known = {p.name: p for p in parameters}
    named = ", ".join(known) or "none"
    for word, names in (("outputs", outputs), ("inputs", inputs)):
        for name in names:
            if name not in known:
                raise _error(
                    marker, f"{word} names {name!r}, which `{kernel.name}` does not take; its parameters are {named}"
                )
    for name in outputs:
        if not _writable(known[name]):
            why = "it is const" if flat(known[name].type).pointer else "it is no pointer"
            raise _error(marker, f"outputs names `{name}`, which `{kernel.name}` cannot write: {why}")
    if not outputs:
        raise _error(marker, f"`{kernel.name}` has no parameter that it could write: it would do nothing")


def _text(text: bytes, kernel: Function, given: Param, named: Param) -> str:
    """A parameter as it is declared, on one line, with the name that it has or was given."""
    start, end = kernel.base + given.span[0], kernel.base + given.span[1]
    written = re.sub(rb"//[^\r\n]*|/\*.*?\*/", b" ", text[start:end], flags=re.DOTALL)
    plain = " ".join(written.decode("utf-8", "replace").split())
    if given.name:
        return plain
    kind, bracket, rest = plain.partition("[")
    return f"{kind.rstrip()} {named.name}{bracket}{rest}"


def _file(program: Program, marker: Marker) -> str:
    """Where the definition goes."""
    if not marker.file:
        if not marker.path.endswith(COMPILED):
            raise _error(
                marker,
                "the kernel is declared in a header, whose definitions would be compiled more than once: add in=FILE.cu",
            )
        return marker.path
    for path in (marker.file, f"{marker.path.rpartition('/')[0]}/{marker.file}".lstrip("/")):
        if path in program.modules:
            if marker.path not in program.visible.get(path, ()):
                raise _error(
                    marker, f"in={marker.file}: that file does not include {marker.path}, where the kernel is declared"
                )
            if not path.endswith(COMPILED):
                raise _error(marker, f"in={marker.file}: that is no source file that is compiled, such as a .cu file")
            return path
    raise _error(marker, f"in={marker.file}: the program has no such file")


def _launches(analysis: Analysis, marker: Marker, kernel: Function) -> Iterator[Launched]:
    program = analysis.program
    for function in program.functions.values():
        if function.body is None:
            continue
        for node in walk(function.body):
            if not isinstance(node, Launch) or not _names(node, kernel):
                continue
            text = analysis.sources[function.path]
            at = function.base + node.span[0]
            line = LineIndex.of(text).line_at(at) + 1
            if node.api != "<<<>>>":
                raise _error(
                    marker,
                    f"{function.path}:{line} launches `{kernel.name}` by {node.api}: the reference can only stand for <<<>>>",
                )
            words = " ".join(text[at : function.base + node.span[1]].decode("utf-8", "replace").split())
            yield Launched(function.path, line, words)


def _names(launch: Launch, kernel: Function) -> bool:
    expr = bare(launch.kernel)
    if isinstance(expr, AddressOf):
        expr = bare(expr.operand)
    if not isinstance(expr, Name):
        return False
    name = expr.name.removeprefix("::")
    return kernel.qualified == name or kernel.qualified.endswith(f"::{name}")


# ------------------------------------------------------------------------------------------------------- the reference


def _reference(program: Program, marker: Marker, kernel: Function, parameters: tuple[Param, ...]) -> Function:
    name = marker.reference
    found = [f for f in resolve(program, marker.path, name, -1) if not f.record]
    if not found:
        declared = program.declarations.get(name.rpartition("::")[2], ())
        how = "is declared and not defined in the files of the program" if declared else "is not defined"
        raise _error(marker, f"reference={name}: that function {how}; it is what the kernel is compared with")
    host = [f for f in found if f.space in ("host", "host_device")]
    if not host:
        raise _error(marker, f"reference={name}: that is no function of the host")
    fitting = [f for f in host if not _unlike(program, kernel, parameters, f)]
    if not fitting:
        raise _error(marker, f"reference={name}: {_unlike(program, kernel, parameters, host[0])}")
    if fitting[0].template:
        raise _error(marker, f"reference={name}: that is a template; name a function for the kernel's types")
    return fitting[0]


def _unlike(program: Program, kernel: Function, parameters: tuple[Param, ...], reference: Function) -> str:
    """How the parameters differ, "" when the reference can be called with the kernel's."""
    if len(reference.params) != len(parameters):
        return f"it takes {len(reference.params)} parameters, `{kernel.name}` takes {len(parameters)}"
    for number, (ours, theirs) in enumerate(zip(parameters, reference.params, strict=True), 1):
        one, other = flat(_meant(program, ours.type)), flat(_meant(program, theirs.type))
        if other.reference and other.const and not one.pointer:
            other = replace(other, reference=False)
        if not one.pointer:
            one, other = replace(one, const=False), replace(other, const=False)
        if one != other:
            return (
                f"its parameter {number} is `{_spelled(theirs)}`, that of `{kernel.name}` is `{_spelled(ours)}`; "
                "types and const must be the same"
            )
        if ours.name and theirs.name and ours.name != theirs.name and _misplaced(parameters, reference):
            return f"its parameter {number} is named `{theirs.name}`, that of `{kernel.name}` is `{ours.name}`: the order differs"
    returns = reference.returns
    return (
        ""
        if returns.name in ("void", "") and not returns.pointer
        else f"it returns {returns.name}; a reference returns nothing"
    )


def _misplaced(parameters: tuple[Param, ...], reference: Function) -> bool:
    """Whether the same names stand in another order: that is an oversight, other names are a matter of taste."""
    ours, theirs = [p.name for p in parameters], [p.name for p in reference.params]
    return ours != theirs and sorted(ours) == sorted(theirs)


def flat(kind: TypeRef) -> TypeRef:
    """A parameter's type, with an array as the pointer that it is."""
    if kind.dims[:1] == (None,):
        kind = replace(kind, pointer=kind.pointer + 1, dims=kind.dims[1:])
    return kind


def _meant(program: Program, kind: TypeRef) -> TypeRef:
    """Without aliases."""
    for _ in range(8):
        alias = next((t for m in program.modules.values() for n, t in m.aliases if n == kind.name), None)
        if alias is None or kind.args:
            break
        kind = TypeRef(
            alias.name, alias.args, alias.pointer + kind.pointer, kind.reference, kind.const or alias.const, kind.dims
        )
    return kind


def _spelled(parameter: Param) -> str:
    kind = flat(parameter.type)
    words = f"{'const ' if kind.const else ''}{kind.name}{'*' * kind.pointer}{'&' if kind.reference else ''}"
    return f"{words} {parameter.name}".strip()


def _is_below(program: Program, marker: Marker, kernel: Function, reference: Function) -> bool:
    """Whether the reference has to be declared for the kernel's declaration to see it. Raises MarkerError when it cannot be."""
    known = [program.functions[u] for u in program.declarations.get(reference.name, ())]
    for each in (reference, *known):
        if each.qualified != reference.qualified:
            continue
        if each.path == marker.path and each.base < kernel.base:
            return False
        if each.path != marker.path and each.path in program.visible.get(marker.path, ()):
            return False
    here = reference.qualified.rpartition("::")[0] == kernel.qualified.rpartition("::")[0]
    if here and reference.path == marker.path and reference.language != "c":
        return True
    raise _error(
        marker,
        f"reference={marker.reference}: declare it above `{kernel.name}`; its definition is at {reference.path}, out of sight there",
    )
