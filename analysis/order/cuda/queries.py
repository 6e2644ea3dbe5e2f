"""Queries (W4): which of them tell that work is done, and on which side of which condition."""

from __future__ import annotations

from stitchcuda.analysis.order.machine import Answer
from stitchcuda.analysis.order.symbolic import Poly
from stitchcuda.analysis.order.symbolic import symbol as symbol_of
from stitchcuda.analysis.order.values import Num, Truth, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind, Expr, Span

NOT_READY = 600  # cudaErrorNotReady


def decisive_query(condition: Expr) -> tuple[ir.Api, bool] | None:
    """The query that a condition decides by, and whether the condition being true means that the work is done:
    `cudaEventQuery(e) == cudaSuccess` (true), `cudaStreamQuery(s) == cudaErrorNotReady` (false)."""
    match condition:
        case ir.Unary(op="!", operand=operand):
            found = decisive_query(operand)
            return None if found is None else (found[0], not found[1])
        case ir.Cast(operand=operand):
            return decisive_query(operand)
        case ir.Api(kind=ApiKind.QUERY):
            return condition, says_done(condition)  # a status is true when it is not success
        case ir.Binary(op="==" | "!=" as op, left=left, right=right):
            for query, other in ((left, right), (right, left)):
                if isinstance(query, ir.Api) and query.kind is ApiKind.QUERY:
                    if says_done(query):
                        answer = other.value if isinstance(other, ir.Const) else None
                        return (query, bool(answer) == (op == "==")) if answer in (0, 1) else None
                    name = other.name if isinstance(other, ir.Name) else ""
                    success = name in ("cudaSuccess", "CUDA_SUCCESS") or other == ir.Const(other.span, 0)
                    if success or name in ("cudaErrorNotReady", "CUDA_ERROR_NOT_READY"):
                        return query, success == (op == "==")
    return None


def done_if(test: Value, outcome: bool, answers: dict[str, Answer]) -> list[Answer]:
    """The queries whose work is done when a test has this outcome, of those whose `answers` are looked at in it. Answers are
    known by their symbols."""
    match test:
        case Num(value=poly):
            known = answers.get(str(poly))
            return [known] if known is not None and known.says_done == outcome else []
        case Truth(op="atom", low=low, exact=True) if low is not None:
            return _done_at(low, outcome, answers)
        case Truth(op="not", parts=parts):
            return done_if(parts[0], not outcome, answers)
        case Truth(op="and" | "or" as op, parts=parts) if (op == "and") == outcome:
            return [found for part in parts for found in done_if(part, outcome, answers)]
    return []


def _done_at(difference: Poly, outcome: bool, answers: dict[str, Answer]) -> list[Answer]:
    """The same for a comparison with a constant: `outcome` tells whether the difference is 0."""
    for symbol in difference.symbols:
        known = answers.get(symbol)
        if known is None:
            continue
        for other in (difference - symbol_of(symbol), -(difference + symbol_of(symbol))):
            constant = other.constant
            if constant is None:
                continue
            value = -constant  # that the answer is compared with
            if known.says_done:
                return [known] if value in (0, 1) and (value == 1) == outcome else []
            return [known] if (value == 0 and outcome) or (value == NOT_READY and not outcome) else []
    return []


def says_done(query: ir.Api) -> bool:
    """Python's queries answer whether the work is done."""
    return "says-done" in query.flags


def understood_queries(function: ir.Function) -> frozenset[Span]:
    """The queries of a function of which is known what follows from the answer: what a loop goes on by, what a branch
    decides by that keeps nothing of the answer, and those whose answer nobody looks at."""
    nodes = list(ir.walk(function.body)) if function.body is not None else []
    again = [n.body.span for n in nodes if isinstance(n, ir.Loop)]
    found = set()
    for node in nodes:
        if isinstance(node, ir.If | ir.Loop) and node.condition is not None:
            query = decisive_query(node.condition)
            if query is not None and (isinstance(node, ir.Loop) or not _remembered(node, again)):
                found.add(query[0].span)
        elif isinstance(node, ir.Evaluate) and isinstance(node.expr, ir.Api) and node.expr.kind is ApiKind.QUERY:
            found.add(node.expr.span)
    return frozenset(found)


def _remembered(branch: ir.If, loops: list[Span]) -> bool:
    """What comes of the answer may decide something later: in the next round of a loop, or by what is kept or returned."""
    if any(start <= branch.span[0] < end for start, end in loops):
        return True
    sides = [branch.then] if branch.otherwise is None else [branch.then, branch.otherwise]
    return any(isinstance(n, _LEAVES) for side in sides for n in ir.walk(side))


_LEAVES = (ir.Return, ir.Break, ir.Continue, ir.Goto, ir.Assign, ir.Throw)
