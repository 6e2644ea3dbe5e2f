"""The rounds of loops: which operations happen again and again, and what else a round does.

The executor takes a loop through a few rounds (`analysis/order/host/loops.py`), so an operation that is repeated has one
occurrence a round. Rules that speak of "every round" ask here; they are about C++ (the text of a loop is read).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.waits import callee_name, is_timer_macro, last_name, takes_time
from stitchcuda.analysis.order.symbolic import Poly, equal
from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.ir import (
    Api,
    ApiKind,
    Assign,
    Call,
    Declare,
    Expr,
    Function,
    Launch,
    Loop,
    Name,
    Program,
    Stmt,
    children,
    walk,
)

_ELEMENT = re.compile(r"\[[^\]\d]")  # of an array, by an index that is not a number
FEW = 2  # a loop of so many rounds is a list of cases rather than a loop


@dataclass(frozen=True, slots=True)
class Repeated:
    """A loop that does device work, as it is written and as it was executed."""

    id: int
    depth: int  # loops around its rounds, itself included
    body: Body  # of the function it is written in
    statement: Loop
    rounds: tuple[tuple[Op, ...], ...]  # in one pass through the loop: at least two rounds

    def place(self, op: Op) -> tuple[int, ...]:
        """The round of this loop, and of those around it, that an op belongs to."""
        return op.iteration[: self.depth]


def repeated_loops(given: RuleInput) -> Iterator[Repeated]:
    """The loops with device work that go round more than a few times, outer ones first, once a way through."""
    line = given.timeline
    passes: dict[int, dict[tuple[int, ...], dict[int, list[Op]]]] = {}
    for op in line.ops:
        chain = around(line, op)
        for depth, loop in enumerate(chain, 1):
            outer = op.iteration[: depth - 1]
            passes.setdefault(loop, {}).setdefault(outer, {}).setdefault(op.iteration[depth - 1], []).append(op)
    for loop, by_outer in sorted(passes.items()):
        trip = line.loops[loop].trip
        if trip is not None and trip.constant is not None and trip.constant <= FEW:
            continue
        body = edits.body_of(given, line.loops[loop].site.function)
        statement = _written(body, line, loop)
        if body is None or statement is None:
            continue
        for outer, by_round in by_outer.items():
            if len(by_round) > 1:
                rounds = tuple(tuple(ops) for _, ops in sorted(by_round.items()))
                yield Repeated(loop, len(outer) + 1, body, statement, rounds)


def around(line: Timeline, op: Op) -> list[int]:
    """The loops around an op, outermost first."""
    chain: list[int] = []
    loop = op.loop
    while loop is not None:
        chain.append(loop)
        loop = line.loops[loop].parent
    return chain[::-1]


def always(loop: Repeated, op: Op) -> bool:
    """The op happens in every round that is not left early: no decision within the loop is on the way to it."""
    return not any(_within(loop, op, c.site.function, c.site.span) for c in (*op.conditions, *op.decided))


def _within(loop: Repeated, op: Op, function: str, span: tuple[int, int]) -> bool:
    if function == loop.body.function.uid:
        return edits.contains(loop.statement.body.span, span)
    inside = False
    for site in (*op.calls, op.site):
        if inside and site.function == function:
            return True
        inside = inside or site.function == loop.body.function.uid
    return False


def twins(loop: Repeated, op: Op) -> list[Op]:
    """The occurrences of an op of the first round, one a round; fewer than the rounds when it is not always there."""
    found = []
    inner = op.iteration[loop.depth :]
    for ops in loop.rounds:
        same = [o for o in ops if o.node == op.node and o.iteration[loop.depth :] == inner]
        found += same[:1]
    return found


def unchanging(first: Poly | None, later: Poly | None) -> bool:
    """A number of two rounds is the same, and does not come from an array that the loop goes through."""
    if first is None or later is None or not equal(first, later):
        return False
    return not any(_ELEMENT.search(name) for name in first.symbols)


def measured(given: RuleInput, loop: Repeated) -> bool:
    """A time is taken in the loop, or the loop does the same thing over and over in a function that takes times: it is
    what is measured, or warms up for that."""
    if any(_takes_time(given.program, node, set()) for node in walk(loop.statement)):
        return True
    return repeats_for_measuring(given.program, loop.body.function, loop.statement)


def repeats_for_measuring(program: Program, function: Function, loop: Loop) -> bool:
    """The loop does the same thing over and over, and elsewhere in its function times are taken."""
    if function.body is None or not _same_every_round(loop):
        return False
    return any(_takes_time(program, node, set()) for node in _outside(function.body, loop))


def _same_every_round(loop: Loop) -> bool:
    """The counter decides nothing in the body, and nothing is handed on from round to round: each repeats the one before,
    as in benchmarks."""
    if loop.step is None:
        return False
    counters = {n.name for n in walk(loop.step) if isinstance(n, Name)}
    given: set[str] = set()  # what launches and calls are given
    changed: set[str] = set()
    for node in walk(loop.body):
        if isinstance(node, Name) and node.name in counters:
            return False
        if isinstance(node, Assign) and isinstance(node.target, Name):
            changed.add(node.target.name)
        elif isinstance(node, Call) and "swap" in callee_name(node).lower():
            return False
        elif isinstance(node, (Launch, Call)):
            given.update(n.name for a in node.args for n in walk(a) if isinstance(n, Name))
        elif isinstance(node, Api):
            given.update(n.name for _, a in node.roles for n in walk(a) if isinstance(n, Name))
    return not given & changed


def _outside(node: Stmt | Expr, loop: Loop) -> Iterator[Stmt | Expr]:
    stack: list[Stmt | Expr] = [node]
    while stack:
        current = stack.pop()
        if current is loop:
            continue
        yield current
        stack.extend(children(current))


def _takes_time(program: Program, node: Stmt | Expr, seen: set[str]) -> bool:
    """A node that reads a clock or has the device note a time, also in the functions that it calls."""
    if isinstance(node, Api):
        return node.kind is ApiKind.ELAPSED_TIME
    if isinstance(node, Declare):
        return takes_time(node.type.name)  # `Timer t;`
    if not isinstance(node, Call):
        return is_timer_macro(node)
    name = last_name(callee_name(node))
    uids = program.by_name.get(name, ())
    if not uids:
        return takes_time(callee_name(node))
    if name in seen:
        return False
    seen.add(name)
    for uid in uids:
        function = program.functions[uid]
        if function.space in ("global", "device") or function.body is None:
            continue
        if any(_takes_time(program, inner, seen) for inner in walk(function.body)):
            return True
    return False


def _written(body: Body | None, line: Timeline, loop: int) -> Loop | None:
    if body is None or body.function.has_error:
        return None
    loops = edits.loops_around(body, line.loops[loop].site.span)
    return loops[-1] if loops else None
