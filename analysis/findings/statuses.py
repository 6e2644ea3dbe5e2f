"""What becomes of the statuses that CUDA calls return: which of them nobody looks at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.program.ir import (
    Api,
    ApiKind,
    Assign,
    Binary,
    Block,
    Call,
    Declare,
    Evaluate,
    Expr,
    Function,
    Launch,
    Loop,
    Member,
    Name,
    Opaque,
    Program,
    Span,
    Stmt,
    bare,
    walk,
)

_ASKS = frozenset({"cudaGetLastError", "cudaPeekAtLastError"})
_STATUS = ("cudaError_t", "cudaError", "CUresult")
_NO_STATUS = _ASKS | {"cudaGetErrorString", "cudaGetErrorName", "cudaCreateChannelDesc", "cuGetErrorString"}
_NAMED_SO = re.compile(r"check|err|assert|last", re.IGNORECASE)  # functions that are not here and may ask


@dataclass(frozen=True, slots=True)
class Dropped:
    """A call whose status nobody looks at. `how` is "statement", "variable" or "launch"."""

    span: Span
    name: str
    how: str
    variable: str = ""


def dropped_in(program: Program, uid: str) -> tuple[Dropped, ...]:
    """The calls of one function whose status is dropped, in source order; kept while the program is asked about."""
    if not _dropped or _dropped[0][0] is not program:
        _dropped[:] = [(program, {})]
    known = _dropped[0][1].get(uid)
    if known is None:
        known = _dropped[0][1][uid] = _look(program, uid)
    return known


_dropped: list[tuple[Program, dict[str, tuple[Dropped, ...]]]] = []


def _look(program: Program, uid: str) -> tuple[Dropped, ...]:
    function = program.functions.get(uid)
    if function is None or function.body is None or function.language == "python":
        return ()
    if function.space != "host" or function.name.startswith("~"):
        return ()
    nodes = list(walk(function.body))
    parts = {id(node): tuple(_alone(node)) for node in nodes if isinstance(node, Evaluate)}
    alone = {id(call) for calls in parts.values() for call in calls}
    asks = _asks_at(program, nodes)
    asked = max(asks, default=-1)
    looks = _last_look(program, function, nodes, alone)
    launches = sorted(n.span[0] for n in nodes if isinstance(n, Launch))
    one_by_one = any(isinstance(n, Api) and id(n) not in alone and _has_status(n) for n in nodes)
    out = []
    for node in nodes:
        if not isinstance(node, Evaluate):
            continue
        for call in parts[id(node)]:
            if _has_status(call) and not _covered(call.span[0], asks, launches if one_by_one else []):
                out.append(Dropped(call.span, call.name, "statement"))
        if isinstance(node.expr, Launch) and node.span[0] > max(asked, looks):
            kernel = node.expr.kernel
            out.append(Dropped(node.expr.span, kernel.name if isinstance(kernel, Name) else "the kernel", "launch"))
        passed = _passed_up(program, node)
        if passed is not None and not _covered(passed.span[0], asks, launches if one_by_one else []):
            out.append(passed)
    out += _kept_only(nodes)
    return tuple(sorted(dict.fromkeys(out), key=lambda d: d.span))


def _alone(node: Evaluate) -> Iterator[Api]:
    """Calls that are a statement, or a part of one of which nothing comes."""
    stack = [node.expr]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Binary) and expr.op == ",":
            stack += [expr.left, expr.right]
        elif isinstance(expr, Api):
            yield expr


def _passed_up(program: Program, node: Evaluate) -> Dropped | None:
    """A function of the program returns the status of its calls, and its caller drops it. One that is given a status
    checks it."""
    call = node.expr
    if not isinstance(call, Call) or not isinstance(call.callee, Name) or any(isinstance(a, Api) for a in call.args):
        return None
    found = [program.functions[u] for u in program.by_name.get(call.callee.name.rsplit("::", 1)[-1], ())]
    fitting = [f for f in found if len(f.params) >= len(call.args) and not f.record]
    if not fitting or not all(f.returns.name in _STATUS and not f.returns.pointer for f in fitting):
        return None
    if any(p.type.name in _STATUS for f in fitting for p in f.params):
        return None
    return Dropped(call.span, call.callee.name, "statement")


def _has_status(call: Api) -> bool:
    cuda = call.name.startswith(("cuda", "cu")) and not call.name.startswith("cudaGetErr")
    plain = not {"library", "returns", "cooperative"} & call.flags
    return cuda and plain and call.name not in _NO_STATUS and call.name[:2] == "cu" and _is_api(call.name)


def _is_api(name: str) -> bool:
    rest = name.removeprefix("cuda") if name.startswith("cuda") else name.removeprefix("cu")
    return bool(rest) and rest[0].isupper()


def _covered(at: int, asks: list[int], launches: list[int]) -> bool:
    """A later question for the latest error covers the call. Where calls are checked one by one, the question behind a
    launch is about the launch."""
    following = next((a for a in asks if a > at), None)
    return following is not None and not any(at < launch < following for launch in launches)


def _asks_at(program: Program, nodes: list[Expr | Stmt]) -> list[int]:
    """Where the function asks for the latest error, itself or through what it calls. A loop asks again, in its next round,
    for what comes later in it."""
    asking = _asking(program)
    asks = [node.span[0] for node in nodes if _asks(program, node, asking)]
    if asks:
        for node in nodes:
            if isinstance(node, Loop) and any(node.span[0] <= a < node.span[1] for a in asks):
                asks.append(node.span[1])
    return sorted(set(asks))


def _asks(program: Program, node: Expr | Stmt, asking: frozenset[str]) -> bool:
    if isinstance(node, Api):
        return node.name in _ASKS
    if not isinstance(node, Call):
        return False
    name = node.callee.name if isinstance(node.callee, Name | Member) else ""
    short = name.rsplit("::", 1)[-1]
    if short in program.by_name:
        return short in asking
    return bool(_NAMED_SO.search(short)) and not any(isinstance(a, Api) for a in node.args)


def _asking(program: Program) -> frozenset[str]:
    """The names of the functions that ask for the latest error, themselves or through what they call."""
    known = _memo.get("asking")
    if known is not None and known[0] is program:
        return known[1]
    names = {f.name for f in program.functions.values() if f.body is not None and _asks_itself(f.body)}
    waiting = list(names)
    callers: dict[str, set[str]] = {}
    for function in program.functions.values():
        for mentioned in function.mentions if names else ():
            callers.setdefault(mentioned, set()).add(function.name)
    while waiting:
        for caller in callers.get(waiting.pop(), ()):
            if caller not in names:
                names.add(caller)
                waiting.append(caller)
    _memo["asking"] = (program, frozenset(names))
    return _memo["asking"][1]


def _asks_itself(body: Block) -> bool:
    known = _asking_bodies.get(body)
    if known is None:
        known = _asking_bodies.keep(body, any(isinstance(n, Api) and n.name in _ASKS for n in walk(body)))
    return known


_memo: dict[str, tuple[Program, frozenset[str]]] = {}
_asking_bodies: KeptWith[bool] = KeptWith()  # bodies are shared between analyses until their text changes


def _last_look(program: Program, function: Function, nodes: list[Expr | Stmt], alone: set[int]) -> int:
    """Where the function last looks at the status of a call that waits or copies, which also tells of launches."""
    tells = [
        n.span[0]
        for n in nodes
        if isinstance(n, Api)
        and id(n) not in alone
        and n.kind in (ApiKind.DEVICE_SYNC, ApiKind.STREAM_SYNC, ApiKind.EVENT_SYNC, ApiKind.COPY)
    ]
    if program.callers.get(function.uid):
        return max([n.span[1] for n in nodes])  # the caller may look
    return max(tells, default=-1)


def _kept_only(nodes: list[Expr | Stmt]) -> Iterator[Dropped]:
    """Statuses that are kept in a variable which is given the next one, or goes out of scope, before anything reads it."""
    names = {n.name for n in nodes if isinstance(n, Declare) and _is_status(n)}
    if not names or any(isinstance(n, Opaque) for n in nodes):
        return
    writes = {id(n.target) for n in nodes if isinstance(n, Assign) and not n.op and isinstance(n.target, Name)}
    uses: dict[str, list[Name]] = {name: [] for name in names}
    for node in nodes:
        if isinstance(node, Name) and node.name in names and id(node) not in writes:
            uses[node.name].append(node)
    blocks = [n for n in nodes if isinstance(n, Block)]
    for name, used in uses.items():
        for block in blocks:
            yield from _overwritten(block, name, used)
        if not used:
            for node in nodes:
                made = _given_to(node, name)
                if made is not None:
                    yield Dropped(made.span, made.name, "variable", name)


def _is_status(declared: Declare) -> bool:
    """A variable for a status: by its type, or because it begins with one."""
    value = bare(declared.init)
    return declared.type.name in _STATUS or (
        declared.type.name == "auto" and isinstance(value, Api) and _has_status(value)
    )


def _overwritten(block: Block, name: str, used: list[Name]) -> Iterator[Dropped]:
    for first, second in zip(block.body, block.body[1:], strict=False):
        made, following = _given_to(first, name), _given_to(second, name)
        if made is None or following is None:
            continue
        if not any(first.span[0] <= n.span[0] < second.span[1] for n in used):
            yield Dropped(made.span, made.name, "variable", name)


def _given_to(node: Expr | Stmt, name: str) -> Api | None:
    """The call whose status the statement puts into the variable."""
    value: Expr | None = None
    if isinstance(node, Declare) and node.name == name:
        value = node.init
    elif isinstance(node, Evaluate) and isinstance(node.expr, Assign) and not node.expr.op:
        target = node.expr.target
        value = node.expr.value if isinstance(target, Name) and target.name == name else None
    value = bare(value)
    return value if isinstance(value, Api) and _has_status(value) else None
