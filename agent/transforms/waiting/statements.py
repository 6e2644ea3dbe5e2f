"""Host waits as they are written: whether one can be taken out of the text, and whether somebody looks at its status."""

from __future__ import annotations

import re

from stitchcuda.agent.transforms.waiting.observers import Observers
from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.waits import asks_for_error, callee_name, last_name
from stitchcuda.analysis.order.timeline import Op
from stitchcuda.analysis.program.ir import (
    Api,
    ApiKind,
    Assign,
    Call,
    Cast,
    Declare,
    Evaluate,
    Expr,
    If,
    Label,
    Launch,
    Name,
    PreprocIf,
    Program,
    Return,
    Stmt,
    children,
    walk,
)

_OMP = re.compile(rb"^[ \t]*#[ \t]*pragma[ \t]+(omp|acc)\b", re.MULTILINE)


def removable(given: RuleInput, wait: Op, observers: Observers) -> tuple[Body, Stmt] | str:
    """The statement that is this wait and nothing else, or why there is none."""
    body = edits.body_of(given, wait.function)
    if body is None:
        return "its text is not at hand as C or C++"
    if body.function.has_error:
        return f"`{body.function.name}` holds text that could not be parsed"
    if any(isinstance(n, PreprocIf) for n in edits.nodes_around(body, wait.site.span)):
        return "it stands within `#if`: what other builds do is not known"
    if not body.slice(wait.site.span).startswith(wait.api):
        return "it is written within a macro that serves other places too"
    found = edits.statements(body, wait.site.span)
    if not found:
        return "it is no statement of its own"
    statement, parent = found[-1]
    if not edits.sole(body, statement, wait.site.span):
        return "its status is used, or its statement does more than to wait"
    inside = _does_more(given.program, statement, wait, observers)
    if inside:
        return inside
    position = [c.span for c in children(parent)].index(statement.span)
    if position and isinstance(list(children(parent))[position - 1], Label):
        return "a label stands before it"
    rest = [s for s in body.function.body.body if s.span != statement.span] if body.function.body is not None else []
    if parent is body.function.body and not any(not isinstance(s, Return) for s in rest):
        return f"`{body.function.name}` does nothing else: its calls would have to go with it"
    return body, statement


def in_parallel_region(given: RuleInput, wait: Op) -> bool:
    """A function on the way to the wait is text for several host threads (OpenMP, OpenACC)."""
    for uid in {wait.function, *(site.function for site in wait.calls)}:
        body = edits.body_of(given, uid)
        if body is None or _OMP.search(body.text):
            return True
    return False


def is_checked(program: Program, op: Op) -> bool:
    """Somebody looks at what the call returns, or asks for the last error in the same function before any further kernel."""
    return _status_used(program, op) or _asked_behind(program, op) is True


def may_be_checked(program: Program, op: Op) -> bool:
    """The same, or the function ends first and its callers may ask."""
    return _status_used(program, op) or _asked_behind(program, op) is not False


def _status_used(program: Program, op: Op) -> bool:
    body = program.functions[op.function].body
    stack: list[tuple[Stmt | Expr, Stmt | Expr | None]] = [(body, None)] if body is not None else []
    parents: list[Stmt | Expr | None] = []
    while stack:
        node, parent = stack.pop()
        if isinstance(node, Api) and node.span == op.site.span and node.name == op.api:
            parents.append(parent)
        stack.extend((c, parent if isinstance(node, Cast) else node) for c in children(node))
    return bool(parents) and not any(isinstance(p, Evaluate) for p in parents)


def _asked_behind(program: Program, op: Op) -> bool | None:
    """Whether an error query stands behind the call with no launch in between; None when the function ends first."""
    function = program.functions[op.function]
    if function.body is None:
        return None
    behind = sorted(
        (n for n in walk(function.body) if n.span[0] >= op.site.span[1] and isinstance(n, (Api, Launch, Call))),
        key=lambda n: n.span,
    )
    for node in behind:
        if isinstance(node, Launch):
            return False
        if asks_for_error(program, node, set()):
            return True
        if isinstance(node, Call) and any(
            uid in program.reaches_cuda for uid in program.by_name.get(last_name(callee_name(node)), ())
        ):
            return False
    return False if function.name == "main" else None


def _does_more(program: Program, statement: Stmt, wait: Op, observers: Observers) -> str:
    """What the statement does besides waiting and looking at the status: a macro or function around the wait may."""
    declared = {n.name for n in walk(statement) if isinstance(n, Declare)}
    for node in walk(statement):
        if isinstance(node, Api) and not (node.name == wait.api and node.span == wait.site.span):
            if node.kind is not ApiKind.NEUTRAL and not _within_failure(statement, node):
                return f"its statement calls `{node.name}` too"
        elif isinstance(node, Launch):
            return "its statement launches a kernel too"
        elif isinstance(node, Assign):
            target = node.target
            if not (isinstance(target, Name) and target.name in declared) and not _within_failure(statement, node):
                return "its statement changes a variable"
        elif isinstance(node, Call):
            name = last_name(callee_name(node))
            for uid in program.by_name.get(name, ()):
                inner = program.functions[uid]
                if inner.space in ("global", "device") or inner.body is None:
                    continue
                if any(isinstance(n, (Api, Launch)) and _works(n) for n in walk(inner.body)):
                    return f"`{name}` around it does more than to look at the status"
    timed = observers.within(statement)
    return f"its statement also {timed}" if timed and not timed.startswith(("ends", "leaves")) else ""


def _works(node: Api | Launch) -> bool:
    return isinstance(node, Launch) or node.kind not in (ApiKind.NEUTRAL, ApiKind.RESET)


def _within_failure(statement: Stmt, node: Stmt | Expr) -> bool:
    """Under the `if` of a check: what happens when something failed."""
    return any(isinstance(n, If) and any(m is node for m in walk(n.then)) for n in walk(statement))
