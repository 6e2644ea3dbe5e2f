"""The parameters of a missing stage: what each of them may be, which lead to memory of the host, and which the reference is not given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stitchcuda.agent.implementing.marker import HostBuffer, Marker, MarkerError
from stitchcuda.analysis.program.ir import Function, Param, Program, TypeRef

STREAMS = ("cudaStream_t", "CUstream")
LIBRARIES = {  # handles: how one is made, bound to a stream, and destroyed
    "cublasHandle_t": ("cublasCreate", "cublasSetStream", "cublasDestroy"),
    "cusparseHandle_t": ("cusparseCreate", "cusparseSetStream", "cusparseDestroy"),
    "cusolverDnHandle_t": ("cusolverDnCreate", "cusolverDnSetStream", "cusolverDnDestroy"),
    "cudnnHandle_t": ("cudnnCreate", "cudnnSetStream", "cudnnDestroy"),
}
_ELSEWHERE = re.compile(r"cudaEvent_t|CUevent|cudaGraph\w*|(?:cublas|cusparse|cusolver|cudnn|cufft|curand)\w*")
_OPAQUE = re.compile(r"cuda(Texture|Surface)Object_t")
_SPELLED_OTHERWISE = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b")


def error(marker: Marker, what: str) -> MarkerError:
    return MarkerError(marker.path, marker.line, what)


def flat(kind: TypeRef) -> TypeRef:
    """A parameter's type, with an array as the pointer that it is."""
    if kind.dims[:1] == (None,):
        kind = replace(kind, pointer=kind.pointer + 1, dims=kind.dims[1:])
    return kind


def is_pointer(parameter: Param) -> bool:
    return flat(parameter.type).pointer > 0


def is_stream(parameter: Param) -> bool:
    return parameter.type.name in STREAMS and not is_pointer(parameter)


def is_handle(parameter: Param) -> bool:
    """A library's, which a host stage uses and its reference is not given."""
    return parameter.type.name in LIBRARIES and not is_pointer(parameter)


def writable(parameter: Param) -> bool:
    kind = flat(parameter.type)
    return kind.pointer > 0 and not kind.const


def must_be_plain(program: Program, marker: Marker, parameter: Param, *, host: bool) -> None:
    """The reference is given a copy of what a pointer points to: nothing may hide behind it. `host`: of a host stage. Raises
    MarkerError."""
    kind = flat(parameter.type)
    why = ""
    if parameter.default is not None and not host:
        why = "has a default argument, which a launch of the reference would not see"
    elif kind.pointer > 1 or kind.dims or "(" in kind.name:
        why = "points to pointers or arrays"
    elif kind.reference:
        why = "is a reference"
    elif _OPAQUE.fullmatch(kind.name):
        why = "is a texture or surface"
    elif _ELSEWHERE.fullmatch(kind.name) and not (host and is_handle(parameter)):
        why = f"is a `{kind.name}`, which no function of the host can follow"
    elif not host and is_stream(parameter):
        why = "is a stream"
    elif hides := _pointers_in(program, kind.name):
        why = f"is a `{kind.name}`, which holds the pointer `{hides}`"
    if why:
        raise error(marker, f"the parameter `{parameter.name}` {why}; a reference is given numbers and flat buffers")


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


def must_be_parameters(
    marker: Marker, stage: Function, parameters: Sequence[Param], outputs: Sequence[str], inputs: Sequence[str]
) -> None:
    """What the comment names must be there, and outputs must be writable. Raises MarkerError."""
    known = {p.name: p for p in parameters}
    for word, names in (("outputs", outputs), ("inputs", inputs), ("host", [h.name for h in marker.host])):
        for name in names:
            if name not in known:
                named = ", ".join(known) or "none"
                raise error(
                    marker, f"{word} names {name!r}, which `{stage.name}` does not take; its parameters are {named}"
                )
    for name in outputs:
        if not writable(known[name]):
            why = "it is const" if is_pointer(known[name]) else "it is no pointer"
            raise error(marker, f"outputs names `{name}`, which `{stage.name}` cannot write: {why}")
    if not outputs:
        raise error(marker, f"`{stage.name}` has no parameter that it could write: it would do nothing")


def host_buffers(marker: Marker, parameters: Sequence[Param], outputs: Sequence[str]) -> tuple[HostBuffer, ...]:
    """The pointers of a host stage to memory of the host. Raises MarkerError."""
    known = {p.name: p for p in parameters}
    whole = {p.name for p in parameters if not is_pointer(p) and not is_stream(p) and not is_handle(p)}
    for buffer in marker.host:
        if not is_pointer(known[buffer.name]):
            raise error(marker, f"host names `{buffer.name}`, which is no pointer")
        if len([h for h in marker.host if h.name == buffer.name]) > 1:
            raise error(marker, f"host names `{buffer.name}` twice")
        if buffer.name in outputs and not buffer.extent:
            raise error(
                marker,
                f"host={buffer.name}: how many elements are written there is needed to compare them; write "
                f"host={buffer.name}[ELEMENTS], a number or an expression over parameters",
            )
        for word in re.findall(r"[A-Za-z_]\w*", buffer.extent):
            if word not in whole:
                raise error(marker, f"host={buffer.name}[{buffer.extent}]: `{word}` is no parameter that is a number")
        if buffer.extent and flat(known[buffer.name].type).name == "void":
            raise error(marker, f"host={buffer.name}[{buffer.extent}]: it points to void, whose elements have no size")
    return marker.host


def text_of(text: bytes, stage: Function, given: Param, named: Param) -> str:
    """A parameter as it is declared, on one line and without a default, with the name that it has or was given."""
    start, end = stage.base + given.span[0], stage.base + given.span[1]
    written = re.sub(rb"//[^\r\n]*|/\*.*?\*/", b" ", text[start:end], flags=re.DOTALL)
    plain = " ".join(written.decode("utf-8", "replace").split())
    if given.default is not None:
        plain = plain.partition("=")[0].rstrip()
    if given.name:
        return plain
    kind, bracket, rest = plain.partition("[")
    return f"{kind.rstrip()} {named.name}{bracket}{rest}"


def pointee(text: str) -> str:
    """What a pointer parameter points to, from its text: `const float* __restrict__ x` points to a `float`."""
    return " ".join(
        _SPELLED_OTHERWISE.sub(" ", text).split("*")[0].split("[")[0].split()[: None if "*" in text else -1]
    )


# ------------------------------------------------------------------------------------------------------- the reference


def unlike(program: Program, stage: Function, parameters: Sequence[Param], reference: Function) -> str:
    """How the parameters differ, "" when the reference can be called with those. A host stage's stream and handles are not among them."""
    if len(reference.params) != len(parameters):
        beside = " beside its stream and handles" if len(parameters) != len(stage.params) else ""
        return f"it takes {len(reference.params)} parameters, `{stage.name}` takes {len(parameters)}{beside}"
    for number, (ours, theirs) in enumerate(zip(parameters, reference.params, strict=True), 1):
        one, other = flat(_meant(program, ours.type)), flat(_meant(program, theirs.type))
        if other.reference and other.const and not one.pointer:
            other = replace(other, reference=False)
        if not one.pointer:
            one, other = replace(one, const=False), replace(other, const=False)
        if one != other:
            return (
                f"its parameter {number} is `{_spelled(theirs)}`, that of `{stage.name}` is `{_spelled(ours)}`; "
                "types and const must be the same"
            )
        if ours.name and theirs.name and ours.name != theirs.name and _misplaced(parameters, reference):
            return f"its parameter {number} is named `{theirs.name}`, that of `{stage.name}` is `{ours.name}`: the order differs"
    returns = reference.returns
    return (
        ""
        if returns.name in ("void", "") and not returns.pointer
        else f"it returns {returns.name}; a reference returns nothing"
    )


def _misplaced(parameters: Sequence[Param], reference: Function) -> bool:
    """Whether the same names stand in another order: that is an oversight, other names are a matter of taste."""
    ours, theirs = [p.name for p in parameters], [p.name for p in reference.params]
    return ours != theirs and sorted(ours) == sorted(theirs)


def _meant(program: Program, kind: TypeRef) -> TypeRef:
    """Without aliases."""
    for _ in range(8):
        alias = next(_aliased(program, kind.name), None)
        if alias is None or kind.args:
            break
        kind = TypeRef(
            alias.name, alias.args, alias.pointer + kind.pointer, kind.reference, kind.const or alias.const, kind.dims
        )
    return kind


def _aliased(program: Program, name: str) -> Iterator[TypeRef]:
    return (kind for module in program.modules.values() for known, kind in module.aliases if known == name)


def _spelled(parameter: Param) -> str:
    kind = flat(parameter.type)
    words = f"{'const ' if kind.const else ''}{kind.name}{'*' * kind.pointer}{'&' if kind.reference else ''}"
    return f"{words} {parameter.name}".strip()
