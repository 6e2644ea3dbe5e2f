"""Copies between host and device memory, and what the host does to its side: shared by the hints about transfers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.rounds import Repeated
from stitchcuda.analysis.findings.waits import HARMLESS, callee_name, last_name
from stitchcuda.analysis.order.host import host_library
from stitchcuda.analysis.order.timeline import Access, Mode, Op, Shape
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Api,
    ApiKind,
    Assign,
    Binary,
    Call,
    Cast,
    Deref,
    Expr,
    Index,
    Launch,
    Member,
    Name,
    Program,
    Site,
    Stmt,
    walk,
)


@dataclass(frozen=True, slots=True)
class Transfer:
    """A copy of which both sides are known, byte for byte."""

    op: Op
    device: Access
    host: Access


def transfer(op: Op, direction: str) -> Transfer | None:
    """The op as a copy in that direction ("h2d" or "d2h"), when both of its ranges are known."""
    if op.kind is not ApiKind.COPY or op.copy_kind != direction or not op.certain or op.unknown or op.graph is not None:
        return None
    read = [a for a in op.accesses if a.mode is Mode.READ]
    written = [a for a in op.accesses if a.mode is Mode.WRITE]
    if len(read) != 1 or len(written) != 1 or op.device is None:
        return None
    for access in (read[0], written[0]):
        if access.range.offset is None or access.range.extent is None or access.range.shape is not Shape.WHOLE:
            return None
    return Transfer(op, written[0], read[0]) if direction == "h2d" else Transfer(op, read[0], written[0])


def parting(op: Op, other: Op) -> Site:
    """The place of an op in the innermost function that also leads to the other one: the op's own, or that of the call
    of the helper that makes it."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(op.calls, other.calls, strict=False)))
    return op.site_at(shared)


def names_of(given: RuleInput, op: Op, role: str) -> frozenset[str]:
    """What the program calls the memory in an argument of a copy, also in the calls that led to it."""
    names: set[str] = set()
    body = edits.body_of(given, op.function)
    call = edits.call_at(body, op.site.span) if body is not None else None
    argument = call.role(role) if isinstance(call, Api) else None
    if argument is not None:
        names |= _names(argument)
    for site in op.calls:
        holder = given.program.functions.get(site.function)
        if holder is None or holder.body is None:
            continue
        outer = edits.body_of(given, site.function)
        for node in edits.nodes_around(outer, site.span) if outer is not None else ():
            if isinstance(node, Call) and node.span[0] == site.span[0]:
                for passed in node.args:
                    names |= _names(passed)
    return frozenset(names)


def _names(expr: Expr) -> set[str]:
    return {last_name(n.name) for n in walk(expr) if isinstance(n, (Name, Member))}


def host_code(given: RuleInput, loop: Repeated) -> Iterator[Stmt | Expr]:
    """Everything that the host runs in a round, with the functions that it calls."""
    yield from _reached(given.program, loop.statement, set())


def _reached(program: Program, node: Stmt | Expr, seen: set[str]) -> Iterator[Stmt | Expr]:
    for inner in walk(node):
        yield inner
        name = last_name(callee_name(inner)) if isinstance(inner, Call) else ""
        if not name or name in seen:
            continue
        seen.add(name)
        for uid in program.by_name.get(name, ()):
            function = program.functions[uid]
            if function.space not in ("global", "device") and function.body is not None:
                yield from _reached(program, function.body, seen)


def may_change(program: Program, node: Stmt | Expr, names: frozenset[str]) -> bool:
    """The node gives a value to something of one of these names, takes its address for other than CUDA's sake, or is a
    call of code that is not here."""
    if isinstance(node, Assign):
        return _root(node.target) in names
    if isinstance(node, Binary):
        return node.op == ">>" and _root(node.right) in names
    if not isinstance(node, Call):
        return False
    if any(isinstance(a, AddressOf) and _root(a.operand) in names for a in node.args):
        return True
    name = callee_name(node)
    if not name:
        return True
    known = program.by_name.get(last_name(name), ()) or HARMLESS.match(name) or host_library.known(last_name(name))
    return not known and not any(isinstance(a, (Api, Launch)) for a in node.args)


def _root(target: Expr) -> str:
    while True:
        match target:
            case Index(base=inner) | Deref(operand=inner) | Cast(operand=inner):
                target = inner
            case Member(base=base, name=name):
                return last_name(name) if isinstance(base, (Name, Deref)) else _root(base)
            case Call(callee=Member(base=inner)):
                target = inner
            case Binary(left=inner):
                target = inner
            case Name(name=name):
                return last_name(name)
            case _:
                return ""
