"""Across functions: the one that downloads hands its device buffer on, and the one that uploads takes it over.

A *producer* fills a local vector from a device buffer of its own, frees the buffer and returns the vector. A *consumer*
gets that vector and does nothing with it but upload it into a device buffer of its own. Rewritten, the producer returns the
buffer and the consumer gets it in the place of its own; the consumer's free releases it. All that names these functions must
be in the program and change alike, so producers and consumers that share a caller form one group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.agent.transforms.residency.draft import Refused, absolute, code_of, inside, top_level, words
from stitchcuda.agent.transforms.residency.trips import Trip
from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Api,
    ApiKind,
    Call,
    Const,
    Declare,
    Expr,
    Goto,
    Index,
    Lambda,
    Member,
    Name,
    PreprocIf,
    Program,
    Return,
    Span,
    Stmt,
    Throw,
    Try,
    TypeRef,
    bare,
    walk,
)
from stitchcuda.analysis.program.link import resolve

# Host functions that neither throw nor touch memory of the program beyond what they are given to read.
NEVER_THROWS = re.compile(
    r"(std::)?(f?printf|f?puts|fflush|exit|abort|min|max|abs|sqrtf?|ceilf?|floorf?)|cuda(Get|Peek)\w*Error\w*|dim3"
)


@dataclass(frozen=True)
class DevicePointer:
    """A local pointer of a function with its only allocation and its only release, all on the function's own level."""

    declared: Declare
    allocation: Stmt
    allocated: Api
    release: Stmt
    released: Api


@dataclass(frozen=True)
class Producer:
    body: Body
    host: Declare
    pointer: DevicePointer
    download: Stmt
    returned: Return


@dataclass(frozen=True)
class Consumer:
    body: Body
    index: int  # of the parameter
    pointer: DevicePointer
    upload: Stmt


def shape_of(given: RuleInput, trip: Trip) -> tuple[Producer, Consumer] | None:
    """Producer and consumer when the trip has that form on the whole; None when it has another. Raises `Refused`."""
    down, up = given.program.functions.get(trip.down.function), given.program.functions.get(trip.up.function)
    if down is None or up is None or down.uid == up.uid:
        return None
    first, second = edits.body_of(given, down.uid), edits.body_of(given, up.uid)
    if first is None or second is None or not _is_vector(down.returns):
        return None
    producer = _producer(given, first, trip)
    return producer, _consumer(given, second, trip)


def _is_vector(type: TypeRef) -> bool:
    return type.name.removeprefix("::") in ("std::vector", "vector") and not type.pointer and len(type.args) == 1


# -------------------------------------------------------------------------------------------------- producer and consumer


def _producer(given: RuleInput, body: Body, trip: Trip) -> Producer:
    function = body.function
    _plain_function(given, body)
    copy, statement = _lone_call(body, trip.down.span)
    host_name, device_name = container_of(copy.role("dst")), name_of(copy.role("src"))
    if host_name is None or device_name is None:
        raise _refused(body, trip.down.span, "the copy does not name a vector and a device pointer directly")
    host, returned = _local(body, host_name), _only_return(body)
    if host is None or not _is_vector(host.type) or host.type.reference or host.static:
        raise _refused(body, trip.down.span, f"`{host_name}` is not a vector that the function makes itself")
    if returned is None or not isinstance(returned.value, Name) or returned.value.name != host_name:
        raise _refused(
            body, returned.span if returned else trip.down.span, f"the function does not simply return `{host_name}`"
        )
    pointer = _device_pointer(given, body, device_name)
    if host.type.args != function.returns.args or not _points_to(pointer.declared, host.type):
        raise _refused(body, host.span, f"`{device_name}` does not point to what `{host_name}` holds")
    allowed = [host.name_span, edits.extent(body, statement.span), returned.value.span]
    _only_used(given, body, host_name, allowed, "the host uses `{}` here")
    kept = [(0, statement.span[0]), edits.extent(body, statement.span), edits.extent(body, pointer.release.span)]
    _only_used(given, body, device_name, kept, "`{}` is used after the download")
    if pointer.release.span[0] < statement.span[1]:
        raise _refused(body, pointer.release.span, f"`{device_name}` is not released after the download")
    return Producer(body, host, pointer, statement, returned)


def _consumer(given: RuleInput, body: Body, trip: Trip) -> Consumer:
    function = body.function
    _plain_function(given, body)
    copy, statement = _lone_call(body, trip.up.span)
    host_name, device_name = container_of(copy.role("src")), name_of(copy.role("dst"))
    if host_name is None or device_name is None:
        raise _refused(body, trip.up.span, "the copy does not name a vector and a device pointer directly")
    index = next((k for k, p in enumerate(function.params) if p.name == host_name), None)
    if index is None or not _is_vector(function.params[index].type):
        raise _refused(body, trip.up.span, f"`{host_name}` is not a vector that the function is given")
    param = function.params[index]
    if param.default is not None:
        raise _refused(body, param.span, f"`{host_name}` has a default value")
    pointer = _device_pointer(given, body, device_name)
    if not _points_to(pointer.declared, param.type):
        raise _refused(body, pointer.declared.span, f"`{device_name}` does not point to what `{host_name}` holds")
    gone = [edits.extent(body, s.span) for s in (statement, pointer.allocation)]
    _only_used(given, body, host_name, [param.span, *gone], "the host uses `{}` here")
    before = [
        u for u in _uses(given, body, device_name)
        if u[0] < statement.span[0] and not inside(u, [absolute(body, g) for g in (*gone, pointer.declared.span)])
    ]  # fmt: skip
    if before:
        raise Refused(f"`{device_name}` is used before the upload", function.path, before[0][0])
    if pointer.release.span[0] < statement.span[1]:
        raise _refused(body, pointer.release.span, f"`{device_name}` is released before the upload")
    return Consumer(body, index, pointer, statement)


def _plain_function(given: RuleInput, body: Body) -> None:
    """A free function without other ways out than its end, in code that parsed."""
    function = body.function
    at = function.name_span
    if function.has_error or function.body is None:
        raise _refused(body, at, "the function's text could not be read in full")
    if function.record or "~" in function.name or function.space != "host":
        raise _refused(body, at, f"`{function.qualified}` is a member function; its signature may be fixed by others")
    if function.template:
        raise _refused(body, at, f"`{function.qualified}` is a template")
    for node in walk(function.body):
        if isinstance(node, Throw | Try | Goto | Lambda | PreprocIf):
            raise _refused(body, node.span, f"`{function.name}` has another way through than from start to end")
        if isinstance(node, Return) and top_level(function, node.span) is not node:
            raise _refused(body, node.span, f"`{function.name}` returns early here")
    returns = [s for s in function.body.body if isinstance(s, Return)]
    if len(returns) > 1 or (returns and function.body.body[-1] is not returns[0]):
        raise _refused(body, returns[0].span, f"`{function.name}` returns early here")
    thrower = first_throw(given.program, function.path, function.body, set())
    if thrower is not None:
        raise _refused(body, thrower.span, f"`{function.name}` may be left here by an exception")


def first_throw(program: Program, path: str, node: Stmt | Expr, seen: set[str]) -> Call | None:
    """A call whose code, as far as it is here, throws."""
    for inner in walk(node):
        if not isinstance(inner, Call) or not isinstance(inner.callee, Name):
            continue
        for function in resolve(program, path, inner.callee.name, len(inner.args)):
            if function.uid in seen or function.body is None:
                continue
            seen.add(function.uid)
            throws = any(isinstance(n, Throw) for n in walk(function.body))
            if throws or first_throw(program, function.path, function.body, seen) is not None:
                return inner
    return None


def _only_return(body: Body) -> Return | None:
    last = body.function.body.body[-1] if body.function.body and body.function.body.body else None
    return last if isinstance(last, Return) else None


def _lone_call(body: Body, span: Span) -> tuple[Api, Stmt]:
    """The call at a span, which must be a statement of its own on the function's level."""
    call = edits.call_at(body, span)
    statement = top_level(body.function, span)
    if not isinstance(call, Api) or statement is None or not edits.sole(body, statement, span):
        raise _refused(body, span, "the call is not a plain statement of its own on the function's level")
    if not body.slice(span).startswith(call.name):
        raise _refused(body, span, "the call is written in a macro")
    return call, statement


def _device_pointer(given: RuleInput, body: Body, name: str) -> DevicePointer:
    declared = _local(body, name)
    if declared is None or declared.static or declared.space or declared.type.pointer != 1 or declared.type.dims:
        raise _refused(body, body.function.name_span, f"`{name}` is not a local pointer of the function")
    if declared.init is not None and not (isinstance(declared.init, Const) and not declared.init.value):
        raise _refused(body, declared.span, f"`{name}` does not get its memory from an allocation of this function")
    made = [c for c in _calls(body, ApiKind.ALLOC) if name_of(c.role("out")) == name]
    freed = [c for c in _calls(body, ApiKind.FREE) if name_of(c.role("ptr")) == name]
    if len(made) != 1 or len(freed) != 1:
        found = "allocated" if len(made) != 1 else "released"
        raise _refused(body, declared.span, f"`{name}` is not {found} exactly once in `{body.function.name}`")
    _, allocation = _lone_call(body, made[0].span)
    _, release = _lone_call(body, freed[0].span)
    taken = [absolute(body, edits.extent(body, allocation.span))]
    code, base = code_of(given.sources[body.function.path]), body.function.base
    for start, end in _uses(given, body, name):
        if inside((start, end), taken) or (start, end) == absolute(body, declared.name_span):
            continue
        lead = code[base:start].rstrip()
        if lead.endswith(b"&") and not lead.endswith(b"&&"):
            raise Refused(f"the address of `{name}` is taken here", body.function.path, start)
        if re.match(rb"\s*(=(?!=)|\+=|-=|\+\+|--)", code[end:]) or lead.endswith((b"++", b"--")):
            raise Refused(f"`{name}` is given another value here", body.function.path, start)
        if re.search(rb"[^=!<>]=\s*(\([^()]*\)\s*)?$", code[base:start]):
            raise Refused(f"a second name is given to `{name}` here", body.function.path, start)
    return DevicePointer(declared, allocation, made[0], release, freed[0])


def _calls(body: Body, kind: ApiKind) -> Iterator[Api]:
    seen: set[Span] = set()
    for node in walk(body.function.body) if body.function.body is not None else ():
        if isinstance(node, Api) and node.kind is kind and node.span not in seen:
            seen.add(node.span)
            yield node


def _local(body: Body, name: str) -> Declare | None:
    """The only declaration of that name in the function, on its own level."""
    if body.function.body is None or any(p.name == name for p in body.function.params):
        return None
    found = [n for n in walk(body.function.body) if isinstance(n, Declare) and n.name == name]
    if len(found) != 1 or found[0] not in body.function.body.body:
        return None
    return found[0]


def container_of(expr: Expr | None) -> str | None:
    """The vector whose elements `v.data()` or `&v[0]` point to."""
    match bare(expr):
        case Call(callee=Member(base=Name(name=name), name="data"), args=()):
            return name
        case AddressOf(operand=Index(base=Name(name=name), index=Const(value=0))):
            return name
    return None


def name_of(expr: Expr | None) -> str | None:
    """The variable that an argument names, by itself or by its address."""
    expr = bare(expr)
    if isinstance(expr, AddressOf):
        expr = bare(expr.operand)
    return expr.name if isinstance(expr, Name) else None


def _points_to(declared: Declare, vector: TypeRef) -> bool:
    held = vector.args[0]
    return (
        (declared.type.name, declared.type.args) == (held.name, held.args)
        and not held.pointer
        and not declared.type.const
    )


def _uses(given: RuleInput, body: Body, name: str) -> list[Span]:
    function = body.function
    code = code_of(given.sources[function.path])
    return words(code, name, function.base, function.base + function.span[1])


def _only_used(given: RuleInput, body: Body, name: str, allowed: list[Span], what: str) -> None:
    spans = [absolute(body, s) for s in allowed]
    for use in _uses(given, body, name):
        if not inside(use, spans):
            raise Refused(what.format(name), body.function.path, use[0])


def _refused(body: Body, span: Span, reason: str) -> Refused:
    return Refused(reason, body.function.path, body.function.base + span[0])
