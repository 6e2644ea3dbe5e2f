"""Within one function: download and upload stand in one block, and the data stays on the device in between.

Three forms. *same*: it goes back to the buffer it came from, which nobody changed: the upload goes. *adopt*: it goes to a
buffer that is allocated only to receive it, and the old one is not used again: the pointer is handed over. *copy*: the upload
becomes a copy on the device. The download goes, too, when nobody else looks at the host memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stitchcuda.agent.transforms.residency.draft import (
    Draft,
    Refused,
    absolute,
    code_of,
    declarators,
    inside,
    refused_at,
    words,
)
from stitchcuda.agent.transforms.residency.groups import LEAVES
from stitchcuda.agent.transforms.residency.handover import NEVER_THROWS, container_of, name_of
from stitchcuda.agent.transforms.residency.trips import Trip, as_large, buffers_of, from_start
from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.waits import members
from stitchcuda.analysis.order.alias import alias
from stitchcuda.analysis.order.timeline import Mode
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Api,
    ApiKind,
    Assign,
    Block,
    Call,
    Case,
    Const,
    Construct,
    Declare,
    Evaluate,
    Expr,
    Lambda,
    Launch,
    Name,
    PreprocIf,
    Span,
    Stmt,
    bare,
    children,
    walk,
)
from stitchcuda.analysis.program.link import resolve
from stitchcuda.analysis.proof.shapes import is_vector

_COPIES = ("cudaMemcpy", "cudaMemcpyAsync")


@dataclass(frozen=True)
class LocalTrip:
    """`private`: the host memory serves the trip alone, and goes with it."""

    trip: Trip
    body: Body
    block: Block
    download: Stmt
    upload: Stmt
    down: Api
    up: Api
    form: str  # "same" | "adopt" | "copy"
    private: bool


def local_shape(given: RuleInput, trip: Trip) -> LocalTrip | None:
    """The trip's form when both copies stand in one block; None when they are written in different functions. Raises
    `Refused`."""
    if trip.down.function != trip.up.function:
        return None
    body = edits.body_of(given, trip.down.function)
    if body is None:
        return None
    if body.function.has_error or body.function.template:
        raise _refused(body, trip.down.span, "the function is a template or could not be read in full")
    (down, download, block), (up, upload, other) = (_copy(body, s) for s in (trip.down.span, trip.up.span))
    if block is not other or upload.span[0] < download.span[1]:
        raise _refused(body, trip.up.span, "download and upload are not statements of one block, in this order")
    between = [s for s in block.body if download.span[1] <= s.span[0] < upload.span[0]]
    for node in (n for s in between for n in walk(s)):
        if isinstance(node, LEAVES):
            raise _refused(body, node.span, "the way from download to upload may be left here")
    host = _root(up.role("src"))
    if host is None or host != _root(down.role("dst")):
        raise _refused(body, trip.up.span, "both copies do not name the host memory alike")
    private = _private(given, body, host, (download, upload))
    if not private:
        _untouched(given, body, host, between)
    elif not all(is_vector(s.type) for s in _belongings(body, host) if isinstance(s, Declare)):
        raise _refused(
            body, download.span, f"the proof does not follow how `{host}` is allocated; as a std::vector it does"
        )
    source = _root(down.role("src"))
    if source is None:
        raise _refused(body, trip.down.span, "the device memory is not named directly")
    same = all(lap.source.buffer == lap.target.buffer and lap.source.range == lap.target.range for lap in trip.laps)
    if same:
        form = "same"
    elif private and _adoptable(given, body, block, trip, (down, up), (download, upload)):
        form = "adopt"
    else:
        form = "copy"
        if any(alias(*buffers_of(lap)) is not False for lap in trip.laps):
            raise _refused(body, trip.up.span, "source and target may be one allocation, which a copy may not overlap")
        _still_named(given, body, source, between)
        if up.role("kind") is None or not edits.visible(body, down.role("src"), up.span):  # type: ignore[arg-type]
            raise _refused(body, trip.up.span, "what the download named means something else here")
    _source_untouched(given, trip, freed=form == "adopt")
    return LocalTrip(trip, body, block, download, upload, down, up, form, private)


def rewrite_local(given: RuleInput, local: LocalTrip) -> Draft:
    """The edits of one local trip."""
    draft, body = Draft(given.sources), local.body
    path, base = body.function.path, body.function.base
    if local.private:
        draft.delete(body, local.download)
        for statement in _belongings(body, _root(local.up.role("src")) or ""):
            draft.delete(body, statement)
    source, target = local.down.role("src"), local.up.role("dst")
    if local.form == "same":
        draft.delete(body, local.upload)
    elif local.form == "adopt":
        one, other = name_of(source), name_of(target)
        draft.delete(body, _only(body, local.block, ApiKind.FREE, "ptr", one)[1])
        draft.delete(body, _only(body, local.block, ApiKind.ALLOC, "out", other)[1])
        draft.replace(path, absolute(body, edits.extent(body, local.upload.span)), f"{other} = {one};")
    else:
        for role, text in (("src", body.slice(source.span) if source else ""), ("kind", "cudaMemcpyDeviceToDevice")):
            expr = local.up.role(role)
            if expr is not None and not (role == "kind" and body.slice(expr.span) == "cudaMemcpyDefault"):
                draft.replace(path, (base + expr.span[0], base + expr.span[1]), text)
    draft.drop_orphans(body)
    return draft


def _copy(body: Body, span: Span) -> tuple[Api, Stmt, Block]:
    call = edits.call_at(body, span)
    found = edits.statements(body, span)
    if not isinstance(call, Api) or call.name not in _COPIES or not body.slice(span).startswith(call.name):
        raise _refused(body, span, "not a plain copy that can be rewritten")
    if not found or not isinstance(found[-1][1], (Block, Case)) or not edits.sole(body, found[-1][0], span):
        raise _refused(body, span, "the copy is not a statement of its own")
    statement, block = found[-1]
    if isinstance(statement, Declare) or not isinstance(block, Block):
        raise _refused(body, span, "the copy is not a statement of its own")
    if any(isinstance(n, (PreprocIf, Lambda)) for n in edits.nodes_around(body, span)):
        raise _refused(body, span, "the copy stands under `#if` or in a lambda")
    return call, statement, block


def _root(expr: Expr | None) -> str | None:
    """The variable behind `v.data()`, `&v[0]`, `p` or a cast of it."""
    expr = bare(expr)
    return container_of(expr) or (expr.name if isinstance(expr, Name) else None)


def _belongings(body: Body, host: str) -> list[Stmt]:
    """What makes and releases the host memory: its declaration and `free`."""
    found: list[Stmt] = []
    for node in walk(body.function.body) if body.function.body is not None else ():
        match node:
            case Declare(name=name) if name == host:
                found.append(node)
            case Evaluate(expr=Call(args=(argument,)) as call) if name_of(argument) == host:
                if name_of_callee(call) in ("free", "std::free"):
                    found.append(node)
    return found


def name_of_callee(call: Call) -> str:
    return call.callee.name if isinstance(call.callee, Name) else ""


def _private(given: RuleInput, body: Body, host: str, copies: Sequence[Stmt]) -> bool:
    """The function makes the host memory and uses it for these copies alone."""
    if any(p.name == host for p in body.function.params):
        return False
    belongings = _belongings(body, host)
    declared = [s for s in belongings if isinstance(s, Declare)]
    if (
        len(declared) != 1
        or declared[0].static
        or declared[0].type.reference
        or len(declarators(body, declared[0])) > 1
    ):
        return False
    init = bare(declared[0].init)
    made_here = (
        declared[0].type.name in ("std::vector", "vector") and (init is None or isinstance(init, Construct))
        or declared[0].type.dims and init is None
        or isinstance(init, Call) and name_of_callee(init) in ("malloc", "std::malloc", "calloc")
    )  # fmt: skip
    if not made_here:
        return False
    calls = [n for n in walk(init) if isinstance(n, (Call, Api))] if init is not None else []
    if any(n is not init for n in calls):
        return False
    spans = [absolute(body, edits.extent(body, s.span)) for s in (*belongings, *copies)]
    return all(inside(u, spans) for u in _uses(given, body, host))


def _uses(given: RuleInput, body: Body, name: str, span: Span | None = None) -> list[Span]:
    base = body.function.base
    low, high = span or (0, body.function.span[1])
    return words(code_of(given.sources[body.function.path]), name, base + low, base + high)


def _untouched(given: RuleInput, body: Body, host: str, between: Sequence[Stmt]) -> None:
    """Host memory that others use, too: between the copies no host code runs that could reach it."""
    for statement in between:
        for use in _uses(given, body, host, statement.span):
            raise Refused(f"`{host}` is used between download and upload", body.function.path, use[0])
        for node in walk(statement):
            writes = isinstance(node, Assign) and not isinstance(node.target, Name)
            if writes or (isinstance(node, Call) and not NEVER_THROWS.fullmatch(name_of_callee(node))):
                raise _refused(body, node.span, f"code here may reach `{host}` between download and upload")


def _still_named(given: RuleInput, body: Body, source: str, between: Sequence[Stmt]) -> None:
    """The pointer of the download still means the same buffer: it is only passed on by value."""
    base = body.function.base
    for statement in between:
        by_value = list(_by_value(given, body, statement))
        for use in _uses(given, body, source, statement.span):
            if (use[0] - base, use[1] - base) not in by_value:
                raise Refused(f"`{source}` may be changed here", body.function.path, use[0])


def _by_value(given: RuleInput, body: Body, statement: Stmt) -> Iterator[Span]:
    for node in walk(statement):
        if isinstance(node, Launch):
            yield from (a.span for a in node.args if isinstance(a, Name))
        elif isinstance(node, Api):
            yield from (e.span for _, e in node.roles if isinstance(e, Name))
        elif isinstance(node, Call) and isinstance(node.callee, Name):
            means = resolve(given.program, body.function.path, node.callee.name, len(node.args))
            for k, argument in enumerate(node.args):
                if isinstance(argument, Name) and means and all(_takes_value(f.params, k) for f in means):
                    yield argument.span


def _takes_value(params: Sequence[object], k: int) -> bool:
    return k < len(params) and not params[k].type.reference  # type: ignore[attr-defined]


def _only(body: Body, block: Block, kind: ApiKind, role: str, name: str | None) -> tuple[Api, Stmt]:
    """The only call of that kind for a variable in the function, a statement of its own in this block. Raises `Refused`."""
    at = body.function.name_span
    if body.function.body is None or name is None:
        raise _refused(body, at, "not a plain pointer")
    calls = {n.span: n for n in walk(body.function.body) if isinstance(n, Api) and n.kind is kind}
    mine = [c for c in calls.values() if name_of(c.role(role)) == name]
    if len(mine) != 1:
        raise _refused(body, at, f"`{name}` is not handled exactly once")
    found = edits.statements(body, mine[0].span)
    if not found or found[-1][1] is not block or not edits.sole(body, found[-1][0], mine[0].span):
        raise _refused(body, mine[0].span, f"`{name}` is handled elsewhere")
    return mine[0], found[-1][0]


def _adoptable(
    given: RuleInput, body: Body, block: Block, trip: Trip, copies: tuple[Api, Api], statements: tuple[Stmt, Stmt]
) -> bool:
    one, other = name_of(copies[0].role("src")), name_of(copies[1].role("dst"))
    if one is None or other is None or one == other or not all(from_start(lap) and as_large(lap) for lap in trip.laps):
        return False
    try:
        made_one, _ = _only(body, block, ApiKind.ALLOC, "out", one)
        freed_one, release = _only(body, block, ApiKind.FREE, "ptr", one)
        made_other, allocation = _only(body, block, ApiKind.ALLOC, "out", other)
        freed_other, last = _only(body, block, ApiKind.FREE, "ptr", other)
    except Refused:
        return False
    if (made_one.name, freed_one.name) != (made_other.name, freed_other.name):
        return False
    if not _same_stream(body, (made_one, made_other)) or not _same_stream(body, (freed_one, freed_other)):
        return False
    declared = {n.name: n for n in walk(block) if isinstance(n, Declare) and n.name in (one, other)}
    if len(declared) != 2 or not all(d.type == declared[one].type and not d.static for d in declared.values()):
        return False
    if any(d.type.pointer != 1 or d.type.const for d in declared.values()):
        return False
    download, upload = statements
    gone = [absolute(body, edits.extent(body, s.span)) for s in (release, allocation, upload)]
    base = body.function.base
    late = [u for u in _uses(given, body, one) if u[0] >= base + download.span[1] and not inside(u, gone)]
    early = [
        u for u in _uses(given, body, other)
        if u[0] < base + upload.span[0] and not inside(u, [*gone, absolute(body, declared[other].span)])
    ]  # fmt: skip
    if late or early or last.span[0] < upload.span[1] or release.span[0] < download.span[1]:
        return False
    return not any(_second_name(body, name) for name in (one, other))


def _same_stream(body: Body, calls: Sequence[Api]) -> bool:
    texts = [body.slice(s.span) if (s := c.role("stream")) is not None else "" for c in calls]
    return len(set(texts)) == 1


def _second_name(body: Body, name: str) -> bool:
    """The pointer is also kept under another name, or someone may set it."""
    for node in walk(body.function.body) if body.function.body is not None else ():
        if isinstance(node, Assign) and (name_of(node.value) == name or name_of(node.target) == name):
            return True
        if isinstance(node, Declare) and name_of(node.init) == name:
            return True
        if isinstance(node, Declare) and node.name == name and not isinstance(node.init, Const | None):
            return True
        if isinstance(node, (Call, Lambda)) and any(
            isinstance(n, AddressOf) and name_of(n) == name for n in children(node)
        ):
            return True
    return False


def _source_untouched(given: RuleInput, trip: Trip, *, freed: bool) -> None:
    """On every way from download to upload nobody writes the device buffer, nor releases it unless that goes, too."""
    for lap in trip.laps:
        timeline, (source, _) = lap.timeline, buffers_of(lap)
        for k in members(timeline.earlier[lap.up.id] & ~timeline.before[lap.down.id] & ~(1 << lap.down.id)):
            op = timeline.ops[k]
            writes = any(a.buffer == source.id and a.mode is not Mode.READ for a in op.accesses)
            if writes and not (freed and op.kind is ApiKind.FREE):
                raise refused_at(given.program, op.site, f"`{source.name}` changes or is released before the upload")


def _refused(body: Body, span: Span, reason: str) -> Refused:
    return Refused(reason, body.function.path, body.function.base + span[0])
