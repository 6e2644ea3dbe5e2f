"""Which functions must change together, and the calls that join them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from stitchcuda.agent.transforms.residency.draft import Refused, absolute, code_of, words
from stitchcuda.agent.transforms.residency.handover import NEVER_THROWS, Consumer, Producer, first_throw
from stitchcuda.agent.transforms.residency.trips import Trip
from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.program.ir import (
    Binary,
    Block,
    Break,
    Call,
    Conditional,
    Continue,
    Declare,
    Evaluate,
    Expr,
    Function,
    Goto,
    Label,
    Lambda,
    Name,
    PreprocIf,
    Return,
    Site,
    Stmt,
    Throw,
    Try,
    children,
    walk,
)
from stitchcuda.analysis.program.link import resolve

LEAVES = (Return, Throw, Try, Goto, Label, Break, Continue, PreprocIf)


@dataclass(frozen=True)
class Link:
    """In a caller: the producer's result goes to the consumer by a variable of its own."""

    body: Body
    producer: str
    consumer: tuple[str, int]
    variable: Declare
    argument: Expr
    made: Call
    used: Call


@dataclass
class Group:
    """All that must change together."""

    trips: list[Trip] = field(default_factory=list)
    producers: dict[str, Producer] = field(default_factory=dict)
    consumers: dict[tuple[str, int], Consumer] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)


def grouped(shapes: Iterable[tuple[Trip, Producer, Consumer]]) -> list[Group]:
    """Trips that share a producer or a consumer belong together."""
    groups: list[Group] = []
    for trip, producer, consumer in shapes:
        uid, key = producer.body.function.uid, (consumer.body.function.uid, consumer.index)
        joined = Group([trip], {uid: producer}, {key: consumer})
        for other in [g for g in groups if uid in g.producers or key in g.consumers]:
            groups.remove(other)
            joined.trips[:0] = other.trips
            joined.producers = {**other.producers, **joined.producers}
            joined.consumers = {**other.consumers, **joined.consumers}
        groups.append(joined)
    return groups


def connect(given: RuleInput, group: Group) -> None:
    """Finds the links and makes sure that nothing else names these functions. Raises `Refused`."""
    executed = {s for t in group.trips for lap in t.laps for s in lap.down.calls}
    for uid, producer in group.producers.items():
        function = producer.body.function
        calls = list(_calls_of(given, function))
        if not calls:
            raise Refused(f"nobody calls `{function.name}` here", function.path, function.base + function.name_span[0])
        for caller, call in calls:
            if Site(caller.function.uid, caller.function.path, call.span) not in executed:
                raise _refused(caller, call, f"this call of `{function.name}` was not followed from an entry")
            group.links.append(_link(given, group, caller, uid, call))
    for function in involved(group):
        _all_known(given, group, function)


def involved(group: Group) -> list[Function]:
    """The producers and consumers, each once."""
    found = {p.body.function.uid: p.body.function for p in group.producers.values()}
    found.update({c.body.function.uid: c.body.function for c in group.consumers.values()})
    return list(found.values())


def prototypes(given: RuleInput, function: Function) -> list[Function]:
    """The function's declarations."""
    uids = given.program.declarations.get(function.name, ())
    found = [given.program.functions[u] for u in uids]
    return [f for f in found if not f.record and [p.type for p in f.params] == [p.type for p in function.params]]


def _calls_of(given: RuleInput, function: Function) -> Iterator[tuple[Body, Call]]:
    for caller in given.program.functions.values():
        if caller.body is None or function.name not in caller.mentions:
            continue
        for node in walk(caller.body):
            if isinstance(node, Call) and isinstance(node.callee, Name):
                if node.callee.name.rpartition("::")[2] != function.name:
                    continue
                means = resolve(given.program, caller.path, node.callee.name, len(node.args))
                if [f.uid for f in means] == [function.uid]:
                    body = edits.body_of(given, caller.uid)
                    if body is not None:
                        yield body, node


def _link(given: RuleInput, group: Group, body: Body, producer: str, call: Call) -> Link:
    if body.function.has_error:
        raise _refused(body, call, "the caller's text could not be read in full")
    statement, parent = _statement(body, call)
    if isinstance(statement, Declare) and statement.init == call:
        return _by_variable(given, group, body, producer, call, statement, parent)
    raise _refused(body, call, "the result of this call is not simply handed on to the function that uploads it")


def _by_variable(
    given: RuleInput, group: Group, body: Body, producer: str, call: Call, declared: Declare, parent: Stmt
) -> Link:
    name = declared.name
    function = body.function
    if declared.static or declared.type.reference or declared.type.pointer:
        raise _refused(body, declared, f"`{name}` is not a plain variable")
    code = code_of(given.sources[function.path])
    uses = words(code, name, function.base, function.base + function.span[1])
    uses = [u for u in uses if u != absolute(body, declared.name_span)]
    if not uses:
        raise _refused(body, declared, f"`{name}` is not handed on")
    found = []
    for start, end in uses:
        use = (start - function.base, end - function.base)
        argument = next((n for n in edits.nodes_at(body, use) if isinstance(n, Name)), None)
        around = reversed(edits.nodes_around(body, use))
        used = next((n for n in around if isinstance(n, Call) and argument in n.args), None)
        if argument is None or used is None:
            raise Refused(f"the host uses `{name}` here", function.path, start)
        key = _consumer_key(given, group, body, used, used.args.index(argument))
        if key is None:
            raise Refused(f"`{name}` goes to code here that may use it on the host", function.path, start)
        found.append((argument, used, key))
    if len(found) > 1:
        raise Refused(f"`{name}` is handed on more than once", function.path, uses[1][0])
    argument, used, key = found[0]
    statement, other_parent = _statement(body, used)
    if other_parent is not parent:
        raise _refused(body, used, f"`{name}` is handed on under a condition or in a loop")
    _unconditional(body, statement, used)
    between = [s for s in children(parent) if declared.span[0] <= s.span[0] <= statement.span[0]]
    for inner in between:
        for node in walk(inner):
            if isinstance(node, LEAVES) and node is not statement:
                raise _refused(body, node, f"the function may be left here before `{name}` is handed on")
    _cannot_throw(given, body, between)
    return Link(body, producer, key, declared, argument, call, used)


def _statement(body: Body, call: Call) -> tuple[Stmt, Stmt]:
    found = edits.statements(body, call.span)
    if not found or not isinstance(found[-1][1], Block) or not isinstance(found[-1][0], (Declare, Evaluate, Return)):
        raise _refused(body, call, "this call is not a plain statement")
    return found[-1]


def _unconditional(body: Body, statement: Stmt, call: Call) -> None:
    for node in edits.nodes_around(body, call.span):
        if not edits.contains(statement.span, node.span):
            continue
        if isinstance(node, (Conditional, Lambda)) or (isinstance(node, Binary) and node.op in ("&&", "||")):
            raise _refused(body, call, "this call is made under a condition")


def _cannot_throw(given: RuleInput, body: Body, between: Sequence[Stmt | Expr]) -> None:
    """No exception leaves the function while it holds the buffer. Code that is not here may throw, which matters only when
    somebody catches: else the program ends."""
    bodies = (f.body for f in given.program.functions.values() if f.body is not None)
    catches = any(isinstance(n, Try) for b in bodies for n in walk(b))
    for node in between:
        thrower = first_throw(given.program, body.function.path, node, set())
        if thrower is None and catches:
            thrower = next((n for n in walk(node) if isinstance(n, Call) and _elsewhere(given, body, n)), None)
        if thrower is not None:
            raise _refused(body, thrower, "an exception may leave the function here, before the buffer is handed on")


def _elsewhere(given: RuleInput, body: Body, call: Call) -> bool:
    if not isinstance(call.callee, Name):
        return True
    means = resolve(given.program, body.function.path, call.callee.name, len(call.args))
    return not any(f.body is not None for f in means) and not NEVER_THROWS.fullmatch(call.callee.name)


def _consumer_key(given: RuleInput, group: Group, body: Body, call: Call, index: int) -> tuple[str, int] | None:
    if not isinstance(call.callee, Name):
        return None
    means = resolve(given.program, body.function.path, call.callee.name, len(call.args))
    key = (means[0].uid, index) if len(means) == 1 else None
    return key if key in group.consumers else None


def _all_known(given: RuleInput, group: Group, function: Function) -> None:
    """Every place that names the function is its definition, a declaration, or a call that changes with it."""
    if not given.program.with_main and not function.static:
        at = function.base + function.name_span[0]
        raise Refused(f"`{function.name}` may be called from a program that is not here", function.path, at)
    known: set[tuple[str, int]] = set()
    for own in (function, *prototypes(given, function)):
        known.add((own.path, own.base + own.name_span[1]))
        if b'extern "C"' in given.sources.get(own.path, b""):
            raise Refused(f"`{function.name}` may have C linkage", own.path, own.base + own.name_span[0])
    for link in group.links:
        for call, uid in ((link.made, link.producer), (link.used, link.consumer[0])):
            if uid == function.uid:
                known.add((link.body.function.path, absolute(link.body, call.callee.span)[1]))
    for path, text in given.sources.items():
        if function.name.encode() not in text:
            continue
        for start, end in words(code_of(text), function.name):
            if (path, end) not in known:
                raise Refused(f"`{function.name}` is also named here, where it cannot change alike", path, start)


def _refused(body: Body, node: Stmt | Expr, reason: str) -> Refused:
    return Refused(reason, body.function.path, body.function.base + node.span[0])
