"""Host threads that are joined where they are started: what they do is done by then, as if it stood there.

Only a thread that nobody works beside is taken so: between its start and its end there is no device work in the function
that starts it, and the thread waits for no other.
"""

from __future__ import annotations

from stitchcuda.analysis.order.host.names import plain
from stitchcuda.analysis.program.ir import (
    Api,
    ApiKind,
    Block,
    Call,
    Construct,
    Expr,
    Function,
    Lambda,
    Launch,
    Loop,
    Member,
    Name,
    Program,
    Span,
    Stmt,
    TypeRef,
    children,
    walk,
)

THREADS = frozenset({"thread", "jthread"})
JOINS = frozenset({"join"})  # how a thread ends
ANSWERS = frozenset({"get", "wait"})  # how a future does
_SHARES = frozenset(
    [
        "wait",
        "wait_for",
        "wait_until",
        "arrive_and_wait",
        "load",
        "acquire",
        "try_acquire",
        "test",
        "test_and_set",
        "pop",
        "try_pop",
        "wait_and_pop",
        "exchange",
        "pthread_cond_wait",
        "pthread_barrier_wait",
        "sem_wait",
        "compare_exchange_strong",
        "compare_exchange_weak",
    ]
)
_DEPTH = 3  # calls that are looked through for waits of a thread for another


def is_thread(type: TypeRef | None) -> bool:
    """`std::thread`, `std::jthread`, by value."""
    return type is not None and not type.pointer and not type.dims and plain(type.name) in THREADS


def alone(program: Program, function: Function, start: Span, ends: frozenset[str]) -> bool:
    """A thread that is started at `start` ends (`t.join()`, `f.get()`: `ends`) before the function goes on with device
    work, and is not let go."""
    if function.body is None:
        return False
    nodes = _outside_lambdas(function.body)
    calls = [n for n in nodes if isinstance(n, Call) and isinstance(n.callee, Member)]
    if any(isinstance(c.callee, Member) and c.callee.name == "detach" for c in calls):
        return False
    after = (c.span[0] for c in calls if c.span[0] >= start[1] and _ends(c, ends))
    end = min(after, default=None)
    if end is None:
        return False
    return not any(start[1] <= n.span[0] < end and _works(program, n) for n in nodes)


def waits_for_others(program: Program, body: Block, depth: int = 0) -> bool:
    """Something in a thread waits for another thread, or asks about one."""
    for node in walk(body):
        if isinstance(node, Loop) and node.form == "while" and not _works_in(program, node):
            return True
        if isinstance(node, Construct) and plain(node.type.name) in ("unique_lock", "scoped_lock", "lock_guard"):
            return True
        if not isinstance(node, Call):
            continue
        name = plain(node.callee.name) if isinstance(node.callee, Name | Member) else ""
        if name in _SHARES:
            return True
        for uid in program.by_name.get(name, ()) if depth < _DEPTH else ():
            called = program.functions[uid].body
            if called is not None and called is not body and waits_for_others(program, called, depth + 1):
                return True
    return False


def _works_in(program: Program, node: Loop) -> bool:
    return any(_works(program, n) for n in walk(node))


def _ends(call: Call, ends: frozenset[str]) -> bool:
    return isinstance(call.callee, Member) and call.callee.name in ends and not call.args


def _works(program: Program, node: Expr | Stmt) -> bool:
    if isinstance(node, Launch):
        return True
    if isinstance(node, Api):
        return node.kind not in (ApiKind.NEUTRAL, ApiKind.SET_DEVICE)
    if not isinstance(node, Call) or not isinstance(node.callee, Name | Member):
        return False
    return any(uid in program.reaches_cuda for uid in program.by_name.get(plain(node.callee.name), ()))


def _outside_lambdas(body: Block) -> list[Expr | Stmt]:
    """The nodes of a body that run when it does."""
    out: list[Expr | Stmt] = []
    stack: list[Expr | Stmt] = [body]
    while stack:
        node = stack.pop()
        out.append(node)
        if not isinstance(node, Lambda):
            stack.extend(children(node))
    return out
