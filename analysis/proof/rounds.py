"""Loops that hand pointers, streams or events on from round to round.

Of a loop that is not executed round by round the Timeline holds a first round and a later one. That stands for all rounds
when what they use is the same, or told apart by the counter. When a variable is handed on (`std::swap(a, b)`,
`current = next`) a third round uses what neither of the two shows, and so may what comes after the loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from stitchcuda.analysis.findings.waits import callee_name, last_name
from stitchcuda.analysis.order.alias import same_instance
from stitchcuda.analysis.order.machine import same_stream
from stitchcuda.analysis.order.symbolic import Poly
from stitchcuda.analysis.order.timeline import Event, Op, Timeline
from stitchcuda.analysis.program.ir import (
    ApiKind,
    Assign,
    Call,
    Declare,
    Deref,
    Expr,
    Function,
    Index,
    Loop,
    Member,
    Name,
    Program,
    Site,
    Stmt,
    TypeRef,
    walk,
)
from stitchcuda.analysis.proof.shapes import is_number

_HAND_ON = frozenset(
    {"swap", "exchange", "rotate", "iter_swap", "swap_ranges", "reverse", "reset", "push", "pop", "push_front"}
)
_TEXT = frozenset({"std::string", "string", "std::string_view"})
_HOLDERS = frozenset({"std::vector", "vector", "std::array", "std::pair", "std::tuple", "std::optional", "std::map"})


def hands_on(program: Program, line: Timeline) -> Site | None:
    """A place where a loop of this entry hands something on; None when there is none."""
    for uid in sorted(line.functions):
        function = program.functions.get(uid)
        if function is None or function.body is None or function.space in ("global", "device"):
            continue
        for loop in walk(function.body):
            if isinstance(loop, Loop):
                found = next(_handing(program, function, loop), None)
                if found is not None:
                    return Site(uid, function.path, found.span)
    return _changing(line)


def _handing(program: Program, function: Function, loop: Loop) -> Iterator[Expr | Stmt]:
    own = {n.name for n in walk(loop) if isinstance(n, Declare)}
    counters = _assigned_names(loop.init) | _assigned_names(loop.step) | ({loop.target.name} if loop.target else set())
    for node in walk(loop.body):
        if isinstance(node, Call) and last_name(callee_name(node)) in _HAND_ON:
            yield node
        if not isinstance(node, Assign) or node.op:
            continue
        root, indexed = _root(node.target, counters)
        if root in own or indexed:
            continue
        type_ = _type_of(program, function, node.target)
        if type_ is None or _may_name_memory(program, type_, 0):
            yield node


def _may_name_memory(program: Program, type_: TypeRef, depth: int) -> bool:
    """A value of the type may be, or hold, a pointer, stream or event."""
    bare = TypeRef(type_.name, type_.args)
    if type_.pointer or depth > 4:
        return True
    if is_number(bare) or type_.name in _TEXT:
        return False
    if type_.args:
        return type_.name not in _HOLDERS or any(_may_name_memory(program, a, depth + 1) for a in type_.args)
    record = program.records.get(type_.name)
    if record is None or record.bases:
        return True
    return any(_may_name_memory(program, f.type, depth + 1) for f in record.fields)


def _assigned_names(node: Stmt | Expr | None) -> set[str]:
    if node is None:
        return set()
    names = {n.name for n in walk(node) if isinstance(n, Declare)}
    return names | {n.target.name for n in walk(node) if isinstance(n, Assign) and isinstance(n.target, Name)}


def _root(target: Expr, counters: set[str]) -> tuple[str, bool]:
    """The variable that an lvalue belongs to, and whether a counter of the loop picks the part."""
    indexed = False
    while isinstance(target, (Index, Member, Deref)):
        if isinstance(target, Index):
            indexed |= any(isinstance(n, Name) and n.name in counters for n in walk(target.index))
        target = target.operand if isinstance(target, Deref) else target.base
    return (target.name if isinstance(target, Name) else ""), indexed


def _type_of(program: Program, function: Function, target: Expr) -> TypeRef | None:
    """The type of what is assigned to, where its declaration says it plainly."""
    pointers = 0
    while isinstance(target, (Index, Deref)):
        pointers += 1
        target = target.operand if isinstance(target, Deref) else target.base
    if isinstance(target, Member):
        name = target.name
        types = {f.type for r in program.records.values() for f in r.fields if f.name == name}
    elif isinstance(target, Name):
        name = target.name
        types = {p.type for p in function.params if p.name == name}
        types |= (
            {n.type for n in walk(function.body) if isinstance(n, Declare) and n.name == name}
            if function.body
            else set()
        )
    else:
        return None
    if len(types) != 1:
        return None
    type_ = next(iter(types))
    if not pointers:
        return type_
    inner = type_.args[0] if type_.args and not type_.pointer else TypeRef(type_.name)
    depth = type_.pointer + len(type_.dims) + bool(type_.args and not type_.pointer)
    return inner if depth == pointers else None


def _changing(line: Timeline) -> Site | None:
    """An operation that uses other memory, another stream or event in a later round, and not by the counter."""
    rounds: dict[tuple[int, int | None, tuple[int, ...]], dict[int, list[Op]]] = defaultdict(lambda: defaultdict(list))
    for op in line.ops:
        if op.loop is not None and op.iteration and not line.loops[op.loop].unrolled:
            rounds[op.node, op.loop, op.iteration[:-1]][op.iteration[-1]].append(op)
    for occurrences in rounds.values():
        first, *others = [occurrences[k] for k in sorted(occurrences)]
        for later in (op for ops in others for op in ops):
            if not any(_alike(line, op, later) for op in first):
                return later.site
    return None


def _alike(line: Timeline, a: Op, b: Op) -> bool:
    if len(a.accesses) != len(b.accesses):
        return False
    pairs = [(line.buffers[x.buffer], line.buffers[y.buffer]) for x, y in zip(a.accesses, b.accesses, strict=True)]
    handles = [(x, y) for x, y in ((a.stream, b.stream), (a.event, b.event)) if (x is None) != (y is None)]
    if handles:
        return False
    if not all(p.id == q.id or _family(p, q) for p, q in pairs):
        return False
    streams = [line.streams[s] for s in (a.stream, b.stream) if s is not None]
    if len(streams) == 2 and streams[0].id != streams[1].id and not _family(*streams):
        return False
    if a.event is not None and b.event is not None and a.event != b.event:
        return _family(line.events[a.event], line.events[b.event])
    return True


def _family(p: object, q: object) -> bool:
    """Made by one call, and told apart by what is not a plain number."""
    site, calls, instance = "site", "calls", "instance"
    if getattr(p, site) is None or getattr(p, site) != getattr(q, site) or getattr(p, calls) != getattr(q, calls):
        return False
    one: tuple[Poly, ...] = getattr(p, instance)
    other: tuple[Poly, ...] = getattr(q, instance)
    return len(one) == len(other) and all(
        x == y or x.constant is None or y.constant is None for x, y in zip(one, other, strict=True)
    )


def settled(line: Timeline, op: Op) -> bool:
    """It is known for which work a wait or an order was: what it names is told apart from everything else that it could
    name."""
    if op.kind is ApiKind.DEVICE_SYNC:
        return op.device is not None and all(o.device is not None for o in line.ops if o.stream is not None)
    if op.kind in (ApiKind.EVENT_SYNC, ApiKind.EVENT_WAIT, ApiKind.EVENT_RECORD):
        if op.event is None:
            return False
        others: Iterable[int] = {o.event for o in line.ops if o.event is not None and o.event != op.event}
        if any(_same_event(line.events[op.event], line.events[e]) is not False for e in others):
            return False
    if op.stream is not None:
        streams = {o.stream for o in line.ops if o.stream is not None and o.stream != op.stream}
        return all(same_stream(line.streams[op.stream], line.streams[s]) is False for s in streams)
    return True


def _same_event(a: Event, b: Event) -> bool | None:
    if a.site is None or b.site is None:
        return None
    if (a.site, a.calls) != (b.site, b.calls):
        return False
    return same_instance(a.instance, b.instance)
