"""What a host wait is for: shared by the rules that call a wait unneeded.

These rules say that a wait may go. They answer only when everything the wait could serve was looked at and found not to
need it: host accesses, frees, time measurements, error checks, printing kernels, other streams, code that is not here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.outline import outline
from stitchcuda.analysis.order.alias import conflict
from stitchcuda.analysis.order.machine import same_stream
from stitchcuda.analysis.order.timeline import Memory, Op, StreamKind, Timeline
from stitchcuda.analysis.program.effects import kernel_effects
from stitchcuda.analysis.program.ir import (
    HOST_WAITS,
    RELEASES,
    AddressOf,
    Api,
    ApiKind,
    Binary,
    Call,
    Cast,
    Declare,
    Deref,
    Evaluate,
    Expr,
    Function,
    Index,
    Launch,
    Member,
    Name,
    PreprocIf,
    Program,
    Return,
    Site,
    Span,
    Stmt,
    children,
    walk,
    walk_within,
)

_UNCLEAR = frozenset(
    {
        ApiKind.QUERY,
        ApiKind.HOST_FUNC,
        ApiKind.CAPTURE_BEGIN,
        ApiKind.CAPTURE_END,
        ApiKind.GRAPH_UPDATE,
        ApiKind.GRAPH_INSTANTIATE,
    }
)
_MEASURES = frozenset({ApiKind.ELAPSED_TIME, ApiKind.RESET, ApiKind.UNMODELLED, ApiKind.SET_DEVICE, ApiKind.QUERY})
_COUNTS_FREED = frozenset({"cudaMemGetInfo", "cuMemGetInfo", "cudaMemPoolTrimTo", "cudaMemPoolGetAttribute"})
_SHARED = (Memory.MANAGED, Memory.MAPPED, Memory.SYMBOL, Memory.UNKNOWN)  # the host names only managed variables
TIMER = re.compile(
    r"time|clock|tick|chrono|\bnow\b|rdtsc|elapsed|queryperf|profil|nvtx|start|stop|bench", re.IGNORECASE
)
_TIME_ONLY = frozenset(
    {"duration", "duration_cast", "time_point", "time_point_cast"}
)  # of std::chrono: made of times taken before
HARMLESS = re.compile(
    r"^(std::.*|printf|fprintf|puts|fputs|fflush|snprintf|sprintf|exit|abort|assert|min|max|abs|f?abs[fl]?|sqrtf?|powf?|ceilf?"
    r"|floorf?|logf?|expf?|sinf?|cosf?|cuda\w*Error\w*|dim3|make_\w+|size|begin|end|data|empty|push_back|emplace_back|c_str"
    r"|swap|get|operator\W.*)$"
)
_ERROR_CHECK = re.compile(r"last\w*err|check\w*err|err\w*check", re.IGNORECASE)
_USED = re.compile(rb"=[^=]|\breturn\b|\b(if|while|switch|for)\s*\(|\?")


def explicit_waits(line: Timeline) -> dict[Site, list[Op]]:
    """The occurrences of each wait that the program calls for its own sake."""
    found: dict[Site, list[Op]] = defaultdict(list)
    for op in line.ops:
        if op.kind in HOST_WAITS:
            found[op.site].append(op)
    return found


def device_work(timeline: Timeline) -> int:
    """Bitset of the ops that run on a stream."""
    bits = 0
    for op in timeline.ops:
        if op.stream is not None and op.kind not in HOST_WAITS:
            bits |= 1 << op.id
    return bits


def members(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def newly_done(timeline: Timeline, wait: Op, work: int) -> int:
    """Device work that is complete because of this wait and was not known to be before it."""
    return wait.waits & work & ~timeline.before[wait.id]


def stream_ordered(timeline: Timeline, a: Op, b: Op) -> bool:
    """Whether b runs after a by their streams alone, without any host wait (O1, O4)."""
    if a.stream is None or b.stream is None or a.thread != b.thread or a.device != b.device:
        return False
    if not timeline.earlier[b.id] >> a.id & 1:
        return False
    first, second = timeline.streams[a.stream], timeline.streams[b.stream]
    if first.kind is StreamKind.UNKNOWN or second.kind is StreamKind.UNKNOWN:
        return first.id == second.id
    if same_stream(first, second) is True:
        return True
    legacy = StreamKind.LEGACY in (first.kind, second.kind)
    return legacy and all(s.kind is StreamKind.LEGACY or s.blocking is True for s in (first, second))


def host_needs(timeline: Timeline, op: Op, work: Iterable[int]) -> bool:
    """Whether a host op may need that work to be done."""
    if op.kind in RELEASES or op.kind in _UNCLEAR:
        return True
    if op.kind in (ApiKind.HOST_READ, ApiKind.HOST_WRITE):
        if any(timeline.buffers[a.buffer].memory in _SHARED for a in op.accesses):
            return True
        return any(conflict(timeline, w, op.id) for w in work)
    if op.kind is ApiKind.EVENT_RECORD and op.event is not None:
        return timeline.events[op.event].timing is not False  # a timestamp on the device's clock
    return False


def nothing_between(line: Timeline, wait: Op, later: Op, done: list[Op]) -> bool:
    """No op after `wait` and before `later` needs that work to be done, but for its place in stream order."""
    numbers = [op.id for op in done]
    for op in line.ops:
        if (
            op.id in (wait.id, later.id)
            or not line.earlier[op.id] >> wait.id & 1
            or line.earlier[op.id] >> later.id & 1
        ):
            continue
        if host_needs(line, op, numbers):
            return False
        enqueued = op.stream is not None and op.kind not in HOST_WAITS
        if enqueued and not all(stream_ordered(line, first, op) for first in done):
            return False
    return True


def waits_for(line: Timeline, op: Op, work: int) -> bool:
    """The host does not go on behind this op before that work is done (W1-W3, C3)."""
    if op.kind in HOST_WAITS:
        return op.waits & work == work
    if op.kind is ApiKind.COPY and not op.asynchronous and op.copy_kind == "d2h":
        return all(stream_ordered(line, line.ops[k], op) for k in members(work))
    return False


def quiet(program: Program, timeline: Timeline, op: Op) -> bool:
    """Device work that nobody sees or hears but through memory: kernels that are here and neither print nor assert
    (only a wait makes those visible), no host functions, also not as nodes of a CUDA graph built by hand."""
    if op.kind is ApiKind.GRAPH_LAUNCH:
        kinds = {o.kind for o in timeline.ops}
        return ApiKind.CAPTURE_BEGIN in kinds and ApiKind.HOST_FUNC not in kinds
    if op.kind is not ApiKind.LAUNCH:
        return op.kind is not ApiKind.HOST_FUNC
    uids = program.by_name.get(last_name(op.kernel), ())
    effects = [kernel_effects(program, uid) for uid in uids]
    return bool(effects) and not any(e.prints or e.supplied for e in effects)


def takes_time(name: str) -> bool:
    """Whether a function of that name may read a clock."""
    return TIMER.search(name) is not None and last_name(name.partition("<")[0]) not in _TIME_ONLY


def callee_name(call: Call) -> str:
    if isinstance(call.callee, Name):
        return call.callee.name
    if isinstance(call.callee, Member):
        return call.callee.name
    return ""


def plain_statement(given: RuleInput, wait: Op) -> Body | None:
    """The function of a wait that stands as a statement of its own (its status goes to nobody but an error-check macro),
    in code that parsed, outside `#if`; else None."""
    body = edits.body_of(given, wait.function)
    if body is None or body.function.has_error or body.function.body is None:
        return None
    if any(isinstance(n, PreprocIf) for n in edits.nodes_around(body, wait.site.span)):
        return None
    if not body.slice(wait.site.span).startswith(wait.api):
        return None  # written inside a macro, where it serves other uses too
    if not edits.statements(body, wait.site.span):
        return None
    start = wait.site.span[0]
    lead = body.text[max(body.text.rfind(mark, 0, start) for mark in (b";", b"{", b"}")) + 1 : start]
    return None if _USED.search(re.sub(rb"//[^\n]*|/\*.*?\*/", b" ", lead, flags=re.DOTALL)) else body


def promises_completion(program: Program, body: Body, wait: Op) -> bool:
    """The wait is the last device work of its function, but for tidying up, or stands in a destructor: other callers may
    count on it."""
    if body.function.name.startswith("~") or body.function.body is None:
        return True
    outermost = edits.statements(body, wait.site.span)[0][0]
    behind = [s for s in body.function.body.body if s.span[0] >= outermost.span[1] and not isinstance(s, Return)]
    return not any(_goes_on(program, node) for statement in behind for node in walk(statement))


def _goes_on(program: Program, node: Stmt | Expr) -> bool:
    """More is done with the device, or by code that may: not the release of handles."""
    if isinstance(node, Api):
        return node.kind in HOST_WAITS or node.kind in (
            ApiKind.COPY,
            ApiKind.MEMSET,
            ApiKind.LIBRARY_CALL,
            ApiKind.GRAPH_LAUNCH,
        )
    if isinstance(node, Call):
        return any(uid in program.reaches_cuda for uid in program.by_name.get(last_name(callee_name(node)), ()))
    return isinstance(node, Launch)


def checked_next(body: Body, wait: Op, program: Program) -> bool:
    """The statement behind the wait asks for the last error, which the wait brings up to date, or takes a time."""
    found = edits.statements(body, wait.site.span)
    if not found:
        return True
    statement, parent = found[-1]
    following = [c for c in children(parent) if c.span[0] >= statement.span[1]]
    if not following:
        return False
    return any(asks_for_error(program, node, set()) or _takes_time(node) for node in walk(following[0]))


def _takes_time(node: Stmt | Expr) -> bool:
    if isinstance(node, Api):
        return node.kind in (ApiKind.ELAPSED_TIME, ApiKind.EVENT_RECORD)
    return isinstance(node, Call) and takes_time(callee_name(node)) or is_timer_macro(node)


def is_timer_macro(node: Stmt | Expr) -> bool:
    """`STOP_TIMER;`: a macro that is not in sight, or stands for nothing in this build."""
    return isinstance(node, Evaluate) and isinstance(node.expr, Name) and takes_time(node.expr.name)


def asks_for_error(program: Program, node: Stmt | Expr, seen: set[str]) -> bool:
    if isinstance(node, Api):
        return node.name in ("cudaGetLastError", "cudaPeekAtLastError")
    if not isinstance(node, Call):
        return False
    name = last_name(callee_name(node))
    uids = program.by_name.get(name, ())
    if not uids:
        return bool(_ERROR_CHECK.search(name)) and not any(isinstance(n, Api) for n in walk(node))
    if name in seen:
        return False
    seen.add(name)
    bodies = [program.functions[uid].body for uid in uids]
    return any(asks_for_error(program, inner, seen) for body in bodies if body is not None for inner in walk(body))


def region_is_plain(given: RuleInput, start: Op, end: Op, work: Iterable[Op]) -> bool:
    """Between two ops, in source order over the call paths that lead to them, nothing measures time or is unknown code,
    and the host follows no pointer that was given to the work (the Timeline does not know every pointer)."""
    depth = 0
    while depth < min(len(start.calls), len(end.calls)) and start.calls[depth] == end.calls[depth]:
        depth += 1
    first, last = start.site_at(depth), end.site_at(depth)
    if first.function != last.function:
        return False
    function = given.program.functions.get(first.function)
    if function is None or function.body is None:
        return False
    low, high = first.span[1], last.span[0]
    for loop in outline(function.body).loops:
        inside = edits.contains(loop.span, first.span), edits.contains(loop.span, last.span)
        if True in inside and (False in inside or low > high):
            low, high = min(low, loop.span[0]), max(high, loop.span[1])
    pieces = [(function, (low, high))]
    for site in (*start.calls[depth + 1 :], *((start.site,) if len(start.calls) > depth else ())):
        inner = given.program.functions.get(site.function)
        if inner is None:
            return False
        pieces.append((inner, (site.span[1], inner.span[1])))
    for site in (*end.calls[depth + 1 :], *((end.site,) if len(end.calls) > depth else ())):
        inner = given.program.functions.get(site.function)
        if inner is None:
            return False
        pieces.append((inner, (0, site.span[0])))
    names = names_given(given, work)
    return all(span_is_plain(given.program, f, s, names) for f, s in pieces)


@dataclass(frozen=True, slots=True)
class Names:
    """How device work was told its memory: `pointers` as arguments, each with the least number of elements and targets
    that the host looked up on the way (1 for `levels[k]`), `symbols` by name in the kernels."""

    pointers: Mapping[str, int]
    symbols: frozenset[str]


def span_is_plain(program: Program, function: Function, span: Span, names: Names) -> bool:
    if function.body is None:
        return False
    if any(_disturbs(program, node, set()) for node in walk_within(function.body, span)):
        return False
    return not any(_uses(node, names) for node in _host_nodes(function.body, span))


def names_given(given: RuleInput, work: Iterable[Op]) -> Names:
    pointers: dict[str, int] = {}
    symbols: set[str] = set()
    for op in work:
        body = edits.body_of(given, op.function)
        call = edits.call_at(body, op.site.span) if body is not None else None
        parts = call.args if isinstance(call, Launch) else [e for _, e in call.roles] if call is not None else []
        for name, depth in (found for part in parts for found in _looked_up(part, 0)):
            pointers[name] = min(depth, pointers.get(name, depth))
        for uid in given.program.by_name.get(last_name(op.kernel), ()) if op.kernel else ():
            symbols.update(symbol for symbol, _ in kernel_effects(given.program, uid).symbols)
    return Names(pointers, frozenset(symbols))


def _looked_up(node: Stmt | Expr, depth: int) -> Iterator[tuple[str, int]]:
    """The names in an argument, each with the number of elements and targets looked up behind it."""
    if isinstance(node, (Name, Member)):
        yield last_name(node.name), depth
    inner = (
        depth + 1 if isinstance(node, (Index, Deref)) else max(depth - 1, 0) if isinstance(node, AddressOf) else depth
    )
    for child in children(node):
        yield from _looked_up(child, 0 if isinstance(node, Index) and child is node.index else inner)


def _host_nodes(node: Stmt | Expr, span: Span) -> Iterator[Stmt | Expr]:
    """What the host itself evaluates to use within a span: not what it merely hands to launches and API calls."""
    return walk_within(node, span, lambda n: not isinstance(n, (Launch, Api)))


def _uses(node: Stmt | Expr, names: Names) -> bool:
    """`p[i]` or `*p` of a pointer that the work was given, or a variable that its kernels name. Of `levels[k]`, which was
    given, `levels[j]` is only another pointer."""
    if isinstance(node, Name):
        return last_name(node.name) in names.symbols
    if not isinstance(node, (Index, Deref)):
        return False
    inner: Expr = node
    depth = 0
    while isinstance(inner, (Index, Deref, Cast, Binary)):
        depth += isinstance(inner, (Index, Deref))
        inner = inner.base if isinstance(inner, Index) else inner.left if isinstance(inner, Binary) else inner.operand
    return isinstance(inner, (Name, Member)) and depth > names.pointers.get(last_name(inner.name), depth)


def _disturbs(program: Program, node: Stmt | Expr, seen: set[str]) -> bool:
    if isinstance(node, Api):
        return node.kind in _MEASURES or node.name in _COUNTS_FREED
    if isinstance(node, Call):
        return _notable(program, node, seen)
    if is_timer_macro(node):
        return True
    # An object that measures by its lifetime: `Timer t;`.
    return isinstance(node, Declare) and takes_time(node.type.name)


def _notable(program: Program, call: Call, seen: set[str]) -> bool:
    """A call that takes a time, or whose code is not here and that is not known to be harmless."""
    name = callee_name(call)
    if not name:
        return True
    if takes_time(name):
        return True
    last = last_name(name)
    uids = program.by_name.get(last, ())
    if not uids:
        return not HARMLESS.match(name)
    if last in seen:
        return False
    seen.add(last)
    for uid in uids:
        function = program.functions[uid]
        if function.space in ("global", "device") or function.body is None:
            continue
        if any(_disturbs(program, node, seen) for node in walk(function.body)):
            return True
    return False


def last_name(name: str) -> str:
    return name.rsplit("::", 1)[-1].split("<")[0]
