"""Host threads that are joined where they are started: what they do is done by then, as if it stood there.

Only a thread that nobody works beside is taken so: between its start and its end there is no device work in the function
that starts it and no other thread begins or goes on, those of one loop aside, and the thread waits for no other.
"""

from __future__ import annotations

from stitchcuda.analysis.order.host.names import SMART_POINTERS, Names, plain
from stitchcuda.analysis.program.ir import (
    Api,
    ApiKind,
    Assign,
    Binary,
    Block,
    Call,
    Construct,
    Declare,
    Expr,
    Function,
    Lambda,
    Launch,
    Loop,
    Member,
    Name,
    New,
    Program,
    Span,
    Stmt,
    TypeRef,
    Unary,
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
        "join",
        "lock",
        "lock_shared",
        "call_once",
        "dequeue",
        "try_dequeue",
        "wait_dequeue",
        "take",
        "receive",
        "recv",
        "pthread_join",
        "pthread_mutex_lock",
        "pthread_mutex_trylock",
        "pthread_rwlock_rdlock",
        "pthread_rwlock_wrlock",
        "pthread_spin_lock",
        "pthread_cond_timedwait",
        "sem_trywait",
        "sem_timedwait",
        "mtx_lock",
        "cnd_wait",
        "EnterCriticalSection",
        "WaitForSingleObject",
        "WaitForMultipleObjects",
        "__atomic_load_n",
        "atomic_load",
        "atomic_load_explicit",
    ]
)
_LOCKS = frozenset({"unique_lock", "scoped_lock", "lock_guard", "shared_lock"})
_STARTS = frozenset({"async", "pthread_create", "thrd_create", "CreateThread", "_beginthreadex"})
_APPENDS = frozenset({"emplace_back", "push_back", "emplace", "push"})
_ENDS = JOINS | ANSWERS
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
    after = (c.span[0] for c in calls if c.span[0] >= start[1] and _ends(c, ends, _name(nodes, start)))
    end = min(after, default=None)
    if end is None:
        return False
    if any(start[1] <= n.span[0] < end and _works(program, n) for n in nodes):
        return False
    crowds = _crowds(nodes)
    for other in nodes:
        first, last = other.span
        if first >= end or not (last <= start[0] or start[1] <= first) or not _begins(other, crowds):
            continue
        name = _name(nodes, other.span)
        if first > start[0] or not any(last <= c.span[0] < start[0] and _ends(c, _ENDS, name) for c in calls):
            return False  # it works beside
    return True


def _name(nodes: list[Expr | Stmt], started: Span) -> str | None:
    """The variable that holds a thread from its start; None: a container or something else does."""
    held = (n for n in nodes if isinstance(n, Declare) and n.span[0] <= started[0] and started[1] <= n.span[1])
    return next((n.name for n in held), None)


def _begins(node: Expr | Stmt, crowds: frozenset[str]) -> bool:
    """Another thread begins here, or work is handed to one."""
    if isinstance(node, Construct | New):
        return bool(node.args) and plain(node.type.name) in THREADS
    if isinstance(node, Declare):
        return is_thread(node.type) and node.init is not None
    if not isinstance(node, Call):
        return False
    callee = node.callee
    name = plain(callee.name) if isinstance(callee, Name | Member) else ""
    if isinstance(callee, Member) and isinstance(callee.base, Name) and callee.base.name in crowds:
        return name in _APPENDS
    return name in _STARTS or any(isinstance(a, Lambda) for a in node.args)


def _crowds(nodes: list[Expr | Stmt]) -> frozenset[str]:
    """The containers of threads and futures among these variables."""
    held = (n for n in nodes if isinstance(n, Declare))
    return frozenset(n.name for n in held if any(plain(a.name) in THREADS | {"future"} for a in n.type.args))


def waits_for_others(names: Names, function: Function, body: Block, depth: int = 0) -> bool:
    """Something in a thread waits for another thread, or asks about one. `function`: where the thread's body stands."""
    program = names.program
    for node in walk(body):
        if isinstance(node, Loop) and not _works_in(program, node) and _until_told(node):
            return True
        if isinstance(node, Construct) and plain(node.type.name) in _LOCKS:
            return True
        if not isinstance(node, Call):
            continue
        name = plain(node.callee.name) if isinstance(node.callee, Name | Member) else ""
        if name in _SHARES or (name == "get" and _asks_a_future(names, function, node)):
            return True
        for uid in program.by_name.get(name, ()) if depth < _DEPTH else ():
            other = program.functions[uid]
            called = other.body
            if called is not None and called is not body and waits_for_others(names, other, called, depth + 1):
                return True
    return False


def _until_told(loop: Loop) -> bool:
    """A loop without device work that may go on until somebody else does something: all but those that count."""
    if loop.form == "range":
        return False
    if loop.form != "for" or loop.condition is None or (isinstance(loop.body, Block) and not loop.body.body):
        return True
    own = {n.target.name for n in walk(loop) if isinstance(n, Assign) and isinstance(n.target, Name)}
    own |= {n.name for n in walk(loop) if isinstance(n, Declare)}
    return any(own.isdisjoint(n.name for n in walk(p) if isinstance(n, Name)) for p in _parts(loop.condition))


def _parts(condition: Expr) -> list[Expr]:
    if isinstance(condition, Binary) and condition.op in ("&&", "||"):
        return _parts(condition.left) + _parts(condition.right)
    return _parts(condition.operand) if isinstance(condition, Unary) and condition.op == "!" else [condition]


def _asks_a_future(names: Names, function: Function, call: Call) -> bool:
    """`x.get()` of anything that is not known to be a pointer that owns."""
    if not isinstance(call.callee, Member) or call.args:
        return False
    base = call.callee.base
    if not isinstance(base, Name):
        return True
    types = [p.type for p in function.params if p.name == base.name]
    record = names.record(TypeRef(function.record)) if function.record else None
    types += [f.type for f in record.fields if f.name == base.name] if record is not None else []
    for node in walk(function.body) if function.body is not None else ():
        if isinstance(node, Declare) and node.name == base.name:
            maker = node.init.callee if isinstance(node.init, Call) else None
            made = plain(maker.name) if isinstance(maker, Name) and node.type.name == "auto" else ""
            own = [names.program.functions[uid].returns for uid in names.program.by_name.get(made, ())]
            if made in ("make_unique", "make_shared"):
                own = [TypeRef(f"{made.removeprefix('make_')}_ptr")]
            types += own or [node.type]
    found = [names.resolve(t) for t in types]
    return not found or not all(t is not None and plain(t.name) in SMART_POINTERS for t in found)


def _works_in(program: Program, node: Loop) -> bool:
    return any(_works(program, n) for n in walk(node))


def _ends(call: Call, ends: frozenset[str], name: str | None) -> bool:
    """`name`: of the thread that is to end."""
    if not isinstance(call.callee, Member) or call.callee.name not in ends or call.args:
        return False
    return name is None or any(isinstance(n, Name) and n.name == name for n in walk(call.callee.base))


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
