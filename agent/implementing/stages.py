"""Missing stages of a program: kernels and host functions that are declared and not defined, and that a comment asks for. Each marker
with the function that it is about and the reference that it names, or what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from stitchcuda.agent.implementing.marker import HostBuffer, Marker, MarkerError, markers
from stitchcuda.agent.implementing.parameters import (
    error,
    host_buffers,
    is_handle,
    is_stream,
    must_be_parameters,
    must_be_plain,
    text_of,
    unlike,
    writable,
)
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import AddressOf, Call, Expr, Function, Launch, Name, Param, Program, bare, walk
from stitchcuda.analysis.program.link import resolve
from stitchcuda.analysis.syntax.text import LineIndex

COMPILED = (".cu", ".cpp", ".cc", ".cxx")  # a definition in another file would be compiled more than once
STATUS = "cudaError_t"  # what a host stage may return
_BETWEEN = re.compile(rb"(?:\s|//[^\r\n]*|/\*.*?\*/)*(?P<c>extern\s*\"C\"\s*)?", re.DOTALL)


@dataclass(frozen=True)
class Launched:
    """Where the kernel is launched or the host stage is called: `text` is that as it stands there, on one line."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Stage:
    """A function to be written: a kernel, or a host stage, which is a function of the host that has its part done by the device.
    `[start, end)` are the bytes of its declaration in `marker.path`, without a byte-order mark; `file` is where the definition goes.
    `parameters` are the function's, each named. `declare` says that the reference stands below the declaration, so that it has to be
    declared above it. `stream` names the parameter by which a host stage is given its stream, "" for the default stream; `host` are
    its pointers to memory of the host, all others lead to memory of the device; `handles` are its parameters that are libraries'."""

    marker: Marker
    function: Function
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
    stream: str = ""
    host: tuple[HostBuffer, ...] = ()
    handles: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return self.marker.path

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def namespace(self) -> str:
        return self.function.qualified.rpartition("::")[0]

    @property
    def is_kernel(self) -> bool:
        return self.function.space == "global"

    @property
    def what(self) -> str:
        """For people and models."""
        return "kernel" if self.is_kernel else "host stage"

    @property
    def given(self) -> tuple[Param, ...]:
        """What the reference takes."""
        return tuple(p for p in self.parameters if p.name not in (self.stream, *self.handles))

    @property
    def signature(self) -> str:
        """How the definition begins."""
        returns = "__global__ void" if self.is_kernel else self.function.returns.name
        return f"{returns} {self.name}({', '.join(self.texts)})"


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
    function, start = _below(program, marker, text)
    host = _is_host(marker, function)
    _must_be_missing(analysis, marker, function)
    parameters = tuple(p if p.name else replace(p, name=f"parameter{k}") for k, p in enumerate(function.params, 1))
    for parameter in parameters:
        must_be_plain(program, marker, parameter, host=host)
    streams = [p.name for p in parameters if is_stream(p)]
    if len(streams) > 1:
        raise error(marker, f"`{function.name}` takes several streams: which one its callers wait for is not known")
    handles = tuple(p.name for p in parameters if is_handle(p))
    without = tuple(p for p in parameters if p.name not in (*streams, *handles))
    reference = _reference(program, marker, function, without)
    outputs = marker.outputs if marker.outputs is not None else tuple(p.name for p in parameters if writable(p))
    others = (p.name for p in without if p.name not in outputs)
    inputs = marker.inputs if marker.inputs is not None else tuple(others)
    must_be_parameters(marker, function, parameters, outputs, inputs)
    if marker.host and not host:
        raise error(
            marker, f"host is for host stages: a kernel such as `{function.name}` is given memory of the device"
        )
    stage = Stage(
        marker,
        function,
        reference,
        parameters,
        tuple(text_of(text, function, given, named) for given, named in zip(function.params, parameters, strict=True)),
        start,
        function.base + function.span[1],
        _file(program, marker, function),
        outputs,
        inputs,
        _is_below(program, marker, function, reference),
        tuple(_launches(analysis, marker, function) if not host else _calls(analysis, function)),
        "".join(streams),
        host_buffers(marker, parameters, outputs),
        handles,
    )
    if not stage.launches and not any(function.name in f.mentions for f in program.functions.values()):
        uses = "calls" if host else "launches"
        raise error(marker, f"nothing {uses} `{function.name}`: there is no run that could show whether it is right")
    return stage


def _is_host(marker: Marker, function: Function) -> bool:
    """Whether it is a host stage. Raises MarkerError when it is neither that nor a kernel."""
    if function.space not in ("global", "host"):
        raise error(
            marker,
            f"`{function.name}` is a device function: only a declared __global__ function or a function of the host can be implemented",
        )
    host = function.space == "host"
    if function.template:
        raise error(
            marker,
            f"`{function.name}` is a template: declare {'it' if host else 'the kernel'} for the types that are "
            f"{'used' if host else 'launched'}",
        )
    if host and function.record:
        raise error(marker, f"`{function.name}` is a member of a class: only free functions can be implemented")
    returns = function.returns
    if host and (returns.name not in ("void", STATUS) or returns.pointer or returns.reference):
        raise error(
            marker,
            f"`{function.name}` returns {returns.name}: a host stage returns nothing or a {STATUS}, and writes its outputs",
        )
    return host


# -------------------------------------------------------------------------------------------------------- the declaration


def _below(program: Program, marker: Marker, text: bytes) -> tuple[Function, int]:
    """The declaration right below the comment, and where it starts."""
    match = _BETWEEN.match(text, marker.end)
    assert match is not None
    here = [f for f in program.functions.values() if f.path == marker.path and f.base == match.end()]
    if not here:
        raise error(
            marker,
            "no declaration follows: put the comment right above `__global__ void NAME(...);` or `void NAME(...);`",
        )
    if here[0].body is not None:
        raise error(
            marker,
            f"`{here[0].name}` is defined already: remove the comment, or write `implemented` for `implement` in it",
        )
    return here[0], match.start("c") if match["c"] else here[0].base


def _must_be_missing(analysis: Analysis, marker: Marker, function: Function) -> None:
    program = analysis.program
    for uid in program.by_name.get(function.name, ()):
        other = program.functions[uid]
        if other.qualified == function.qualified and len(other.params) == len(function.params):
            where = f"{other.path}:{_line(analysis, other)}"
            raise error(
                marker, f"`{function.name}` is defined already, at {where}: remove the comment, or the definition"
            )
    for uid in program.declarations.get(function.name, ()):
        other = program.functions[uid]
        if other.qualified == function.qualified and uid != function.uid:
            where = f"{other.path}:{_line(analysis, other)}"
            raise error(
                marker, f"`{function.name}` is declared again at {where}: keep the declaration below the comment alone"
            )


def _line(analysis: Analysis, function: Function) -> int:
    return LineIndex.of(analysis.sources[function.path]).line_at(function.base) + 1


def _file(program: Program, marker: Marker, function: Function) -> str:
    """Where the definition goes."""
    if not marker.file:
        if not marker.path.endswith(COMPILED):
            raise error(
                marker,
                f"`{function.name}` is declared in a header, whose definitions would be compiled more than once: add in=FILE.cu",
            )
        return marker.path
    for path in (marker.file, f"{marker.path.rpartition('/')[0]}/{marker.file}".lstrip("/")):
        if path in program.modules:
            if marker.path not in program.visible.get(path, ()):
                raise error(
                    marker,
                    f"in={marker.file}: that file does not include {marker.path}, where `{function.name}` is declared",
                )
            if not path.endswith(COMPILED):
                raise error(marker, f"in={marker.file}: that is no source file that is compiled, such as a .cu file")
            return path
    raise error(marker, f"in={marker.file}: the program has no such file")


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
                raise error(
                    marker,
                    f"{function.path}:{line} launches `{kernel.name}` by {node.api}: the reference can only stand for <<<>>>",
                )
            words = " ".join(text[at : function.base + node.span[1]].decode("utf-8", "replace").split())
            yield Launched(function.path, line, words)


def _names(launch: Launch, kernel: Function) -> bool:
    expr = bare(launch.kernel)
    if isinstance(expr, AddressOf):
        expr = bare(expr.operand)
    return _means(expr, kernel)


def _means(expr: Expr, function: Function) -> bool:
    if not isinstance(expr, Name):
        return False
    name = expr.name.removeprefix("::")
    return function.qualified == name or function.qualified.endswith(f"::{name}")


def _calls(analysis: Analysis, stage: Function) -> Iterator[Launched]:
    for function in analysis.program.functions.values():
        if function.body is None:
            continue
        for node in walk(function.body):
            if isinstance(node, Call) and _means(bare(node.callee), stage):
                text = analysis.sources[function.path]
                at, end = function.base + node.span[0], function.base + node.span[1]
                words = " ".join(text[at:end].decode("utf-8", "replace").split())
                yield Launched(function.path, LineIndex.of(text).line_at(at) + 1, words)


# ------------------------------------------------------------------------------------------------------- the reference


def _reference(program: Program, marker: Marker, function: Function, parameters: tuple[Param, ...]) -> Function:
    name = marker.reference
    found = [f for f in resolve(program, marker.path, name, -1) if not f.record]
    if not found:
        declared = program.declarations.get(name.rpartition("::")[2], ())
        how = "is declared and not defined in the files of the program" if declared else "is not defined"
        raise error(marker, f"reference={name}: that function {how}; it is what `{function.name}` is compared with")
    host = [f for f in found if f.space in ("host", "host_device")]
    if not host:
        raise error(marker, f"reference={name}: that is no function of the host")
    fitting = [f for f in host if not unlike(program, function, parameters, f)]
    if not fitting:
        raise error(marker, f"reference={name}: {unlike(program, function, parameters, host[0])}")
    if fitting[0].template:
        raise error(marker, f"reference={name}: that is a template; name a function for the types of `{function.name}`")
    return fitting[0]


def _is_below(program: Program, marker: Marker, function: Function, reference: Function) -> bool:
    """Whether the reference has to be declared for the kernel's declaration to see it. Raises MarkerError when it cannot be."""
    known = [program.functions[u] for u in program.declarations.get(reference.name, ())]
    for each in (reference, *known):
        if each.qualified != reference.qualified:
            continue
        if each.path == marker.path and each.base < function.base:
            return False
        if each.path != marker.path and each.path in program.visible.get(marker.path, ()):
            return False
    here = reference.qualified.rpartition("::")[0] == function.qualified.rpartition("::")[0]
    if here and reference.path == marker.path and reference.language != "c":
        return True
    raise error(
        marker,
        f"reference={marker.reference}: declare it above `{function.name}`; its definition is at {reference.path}, out of sight there",
    )
