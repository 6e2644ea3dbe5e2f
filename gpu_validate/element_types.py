"""What the source says that the buffers hold which a trace shows being read back: the element type of the host pointer at the copy.

Only what is declared plainly is told: a variable, parameter, member or array of a known type, a vector's data, the address of one of
them. Bytes and unsigned shorts are no answer, since they store anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Api,
    ApiKind,
    Binary,
    Call,
    Cast,
    Declare,
    Deref,
    Expr,
    Function,
    Index,
    Lambda,
    Member,
    Name,
    TypeRef,
    walk,
)
from stitchcuda.gpu_validate.observe.elements import ELEMENTS, Element
from stitchcuda.gpu_validate.trace.model import CallSite, Trace

_NAMES = {
    "float32": "float float1 float2 float3 float4 cufftReal",
    "float64": "double double1 double2 double3 double4 cufftDoubleReal",
    "float16": "half __half half2 __half2",
    "bfloat16": "nv_bfloat16 __nv_bfloat16 nv_bfloat162 __nv_bfloat162",
    "complex64": "cuComplex cuFloatComplex cufftComplex",
    "complex128": "cuDoubleComplex cufftDoubleComplex",
    "int16": "short int16_t",
    "int32": "int signed int32_t int2 int3 int4",
    "uint32": "unsigned uint uint32_t uint2 uint3 uint4",
    "int64": "int64_t ptrdiff_t",
    "uint64": "uint64_t size_t",
}
_SPELLED = {word: ELEMENTS[name] for name, words in _NAMES.items() for word in words.split()} | {
    "unsigned int": ELEMENTS["uint32"], "signed int": ELEMENTS["int32"], "long long": ELEMENTS["int64"],
    "long long int": ELEMENTS["int64"], "unsigned long long": ELEMENTS["uint64"],
}  # fmt: skip
_CONTAINERS = {"std::vector", "vector", "std::array", "array", "thrust::host_vector", "std::unique_ptr", "unique_ptr"}
_MOST_ALIASES = 8  # one of another

Variables = Mapping[str, TypeRef | None]


def element_types(full: Trace, analysis: Analysis) -> tuple[Element | None, ...]:
    """For each read of a full trace the element type that the source declares; None where it does not, or not plainly."""
    source = _Source(analysis)
    sites = {call.index: call.sites[0] for call in full.calls if call.sites}
    known: dict[CallSite, Element | None] = {}
    for site in set(sites.values()):
        known[site] = source.at(site)
    return tuple(known[sites[read.call]] if read.call in sites else None for read in full.reads)


@dataclass(frozen=True, slots=True)
class _Copy:
    first: int  # lines
    last: int
    element: Element | None


class _Source:
    """The copies of a program, by file."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._copies: dict[str, list[_Copy]] = {}

    def at(self, site: CallSite) -> Element | None:
        if site.path not in self._copies:
            self._copies[site.path] = list(self._read(site.path))
        found = {c.element for c in self._copies[site.path] if c.first <= site.line <= c.last}
        return found.pop() if len(found) == 1 else None

    def _read(self, path: str) -> Iterator[_Copy]:
        text = self._analysis.sources.get(path)
        if text is None:
            return
        for function in self._analysis.program.functions.values():
            if function.path != path or function.body is None:
                continue
            variables = self._variables(function)
            for node in walk(function.body):
                target = node.role("dst") if isinstance(node, Api) and node.kind is ApiKind.COPY else None
                if target is not None:
                    first, last = (text.count(b"\n", 0, function.base + end) + 1 for end in node.span)
                    yield _Copy(first, last, self._pointee(target, variables))

    def _variables(self, function: Function) -> Variables:
        """By name; None for a name that stands for several types."""
        out: dict[str, TypeRef | None] = {}
        program = self._analysis.program
        record = program.records.get(function.record) if function.record else None
        if record is not None:
            out = {field.name: field.type for field in record.fields}
            out["this"] = TypeRef(record.name, pointer=1)
        elif (
            not function.record
        ):  # in a member function a name may be a base's member, which hides a global of that name
            for path in program.visible.get(function.path, frozenset({function.path})):
                for declared in program.modules[path].globals if path in program.modules else ():
                    _put(out, declared.name, declared.type)
        own: dict[str, TypeRef | None] = {}
        for param in function.params:
            _put(own, param.name, param.type)
        for node in walk(function.body) if function.body is not None else ():
            if isinstance(node, Declare):
                _put(own, node.name, node.type)
            elif isinstance(node, Lambda):
                for param in node.params:
                    _put(own, param.name, param.type)
        known = out | own
        return {n: None if kind is not None and kind.name in function.template else kind for n, kind in known.items()}

    def _pointee(self, expr: Expr, variables: Variables) -> Element | None:
        """What the pointer points to."""
        match expr:
            case Cast(operand=operand, type=wanted):
                inner = self._pointee(operand, variables)
                return inner or (self._element(wanted.name, wanted) if wanted.pointer == 1 else None)
            case Binary(op="+" | "-", left=left):
                return self._pointee(left, variables)
            case AddressOf(operand=Index(base=base)):
                return self._pointee(base, variables) or self._held(base, variables)
            case AddressOf(operand=operand):
                kind = self._type(operand, variables)
                return self._element(kind.name, kind) if kind is not None and not kind.pointer else None
            case Call(callee=Member(base=base, name="data" | "get")):
                return self._held(base, variables)
        kind = self._type(expr, variables)
        plain = kind is not None and kind.pointer + (1 if kind.dims else 0) == 1
        return self._element(kind.name, kind) if kind is not None and plain else None

    def _held(self, container: Expr, variables: Variables) -> Element | None:
        """What a container holds."""
        kind = self._type(container, variables)
        if kind is None or kind.pointer or kind.dims or kind.name not in _CONTAINERS or not kind.args:
            return None
        held = kind.args[0]
        return None if held.pointer else self._element(held.name, held)

    def _type(self, expr: Expr, variables: Variables) -> TypeRef | None:
        """The declared type of a variable or of a member of one."""
        match expr:
            case Name(name=name):
                return variables.get(name)
            case Member(base=base, name=name):
                through = isinstance(base, Deref)
                kind = self._type(base.operand if isinstance(base, Deref) else base, variables)
                if kind is None or kind.pointer != through or kind.dims or kind.args:
                    return None
                record = self._analysis.program.records.get(kind.name)
                found = [field.type for field in record.fields if field.name == name] if record is not None else []
                return found[0] if len(found) == 1 else None
        return None

    def _element(self, name: str, kind: TypeRef) -> Element | None:
        if name in ("std::complex", "thrust::complex") and len(kind.args) == 1:
            part = self._element(kind.args[0].name, kind.args[0])
            return None if part is None or not part.floating else part
        program = self._analysis.program
        for _ in range(_MOST_ALIASES):
            targets = {t for m in program.modules.values() for alias, t in m.aliases if alias == name}
            if not targets:
                return None if name in program.records else _SPELLED.get(name.removeprefix("std::"))
            target = targets.pop()
            if targets or target.pointer or target.dims or target.args:
                return None
            name = target.name
        return None


def _put(known: dict[str, TypeRef | None], name: str, kind: TypeRef) -> None:
    known[name] = kind if known.get(name, kind) == kind else None
