"""Which kernels hold nothing that a rule about device code could tell of, so that they need not be walked.

All of those rules are about shared memory, about barriers and other meetings of threads, about atomics, about loops
that wait, or about places in memory that are read and written again. What a function has of it is read off its text
once; a kernel has what the functions have that it may reach by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.kernel import intrinsics
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.known_calls import COPY_CALLS, bare, is_atomic
from stitchcuda.analysis.program.ir import Function, Program

_OPERATORS = frozenset({"operator()", "operator[]"})  # that are called without their names
_COORDINATES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"})
_OBJECTS = ("atomic", "barrier", "pipeline", "group", "semaphore", "latch", "fragment")  # in the names of types


@dataclass(frozen=True, slots=True)
class Reached:
    """The functions that a kernel may reach, and what the names meant by which they were found."""

    functions: tuple[tuple[str, str], ...]
    lookups: tuple[tuple[str, tuple[str, ...]], ...]


def asks_nothing(program: Program, kernel: Function) -> Reached | None:
    """None when the kernel, or a function that it may reach, has something that rules are about."""
    if _asks(kernel):
        return None
    lookups: dict[str, tuple[str, ...]] = {}
    reached: dict[str, str] = {}
    waiting = [kernel]
    while waiting:
        for name in sorted({*_OPERATORS, *map(bare, waiting.pop().mentions)}):
            if name in lookups:
                continue
            if any(program.functions[uid].space != "host" for uid in program.declarations.get(name, ())):
                return None  # a device function without a body: it may do anything
            lookups[name] = program.by_name.get(name, ())
            for uid in lookups[name]:
                function = program.functions[uid]
                if uid in reached or function.space == "global" or function.space == "host" and not function.record:
                    continue
                if function.body is None or _asks(function):
                    return None
                reached[uid] = function.digest
                waiting.append(function)
    return Reached(tuple(sorted(reached.items())), tuple(sorted(lookups.items())))


_asking: KeptWith[bool] = KeptWith()  # by body


def _asks(function: Function) -> bool:
    known = _asking.get(function.body) if function.body is not None else None
    if known is None:
        known = function.has_error or any(map(_speaks, function.mentions)) or _in_body(function)
        if function.body is not None:
            _asking.keep(function.body, known)
    return known


def _speaks(name: str) -> bool:
    """A name of what makes threads meet, or of an object that may."""
    last = bare(name)
    if last in _COORDINATES:
        return False
    return (
        last in intrinsics.MEETINGS
        or last in intrinsics.FENCES
        or last in intrinsics.COMMITS
        or last in intrinsics.WAITS
        or last in intrinsics.GROUPS
        or last in COPY_CALLS
        or last.startswith(("__pipeline", "__nv_atomic", "fetch_", "compare_exchange"))
        or is_atomic(last)
        or intrinsics.SYNCHRONISING.search(last) is not None
        or any(part in name.lower() for part in _OBJECTS)
    )


def _in_body(function: Function) -> bool:
    assert function.body is not None
    declared: dict[str, ir.TypeRef | None] = {}
    for param in function.params:
        declared[param.name] = None if param.type.pointer or param.type.dims or param.type.reference else param.type
    nodes = list(ir.walk(function.body))
    for node in nodes:
        if isinstance(node, ir.Declare):
            if node.space == "shared" or any(part in node.type.name.lower() for part in _OBJECTS):
                return True
            declared[node.name] = _own(node, declared)
        elif isinstance(node, ir.Lambda | ir.Goto) or isinstance(node, ir.Opaque) and node.what == "asm":
            return True
        elif isinstance(node, ir.Call):
            name = node.callee.name if isinstance(node.callee, ir.Name | ir.Member) else ""
            if not name or _speaks(name):
                return True
    return _updates(nodes, declared) or any(isinstance(n, ir.Loop) and _may_wait(n) for n in nodes)


def _own(node: ir.Declare, declared: dict[str, ir.TypeRef | None]) -> ir.TypeRef | None:
    """The type of a variable that holds its own value; None for a pointer or a reference, and when a name is used for
    several kinds of variables."""
    before = declared.get(node.name, node.type)
    if node.type.reference or node.static or before is None or _form(before) != _form(node.type):
        return None
    return node.type


def _form(type_: ir.TypeRef) -> tuple[int, int, bool]:
    return type_.pointer, len(type_.dims), type_.name == "auto"


def _updates(nodes: list[ir.Expr | ir.Stmt], declared: dict[str, ir.TypeRef | None]) -> bool:
    """A place in memory is written that is read as well, or may be."""
    written: dict[str, int] = {}
    for node in nodes:
        if not isinstance(node, ir.Assign) or _is_local(node.target, declared):
            continue
        root = _root(node.target)
        if node.op or root is None:
            return True
        written[root] = written.get(root, 0) + 1
    if not written:
        return False
    named: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, ir.Name) and node.name in written:
            named[node.name] = named.get(node.name, 0) + 1
    return any(named.get(name) != count for name, count in written.items())


def _is_local(target: ir.Expr, declared: dict[str, ir.TypeRef | None]) -> bool:
    """A variable of the function, an element of its own array, or a member of its own record."""
    member = isinstance(target, ir.Member)
    while isinstance(target, ir.Member):
        target = target.base
    depth = 0
    while isinstance(target, ir.Index):
        target = target.base
        depth += 1
    if not isinstance(target, ir.Name):
        return False
    type_ = declared.get(target.name)
    if type_ is None or member and (type_.pointer or type_.name == "auto"):
        return False
    return not depth or depth <= len(type_.dims) and not type_.pointer


def _root(target: ir.Expr) -> str | None:
    while isinstance(target, ir.Index | ir.Member | ir.Deref | ir.Cast):
        target = target.base if isinstance(target, ir.Index | ir.Member) else target.operand
    return target.name if isinstance(target, ir.Name) and target.name != "this" else None


def _may_wait(loop: ir.Loop) -> bool:
    """A loop that looks at memory and counts nothing: it may wait for another thread."""
    counts = loop.form == "for" and loop.step is not None
    if counts and any(isinstance(n, ir.Assign | ir.Declare) for n in ir.walk(loop.body)):
        return False
    return any(isinstance(n, ir.Index | ir.Deref) for n in ir.walk(loop))
