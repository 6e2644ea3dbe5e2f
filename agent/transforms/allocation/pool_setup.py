"""The set-up that stream-ordered allocation needs to be cheap: the default pool keeps what is freed.

Without it the pool gives memory back to the driver whenever the program waits for the device, and every allocation after
that costs as much as `cudaMalloc`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stitchcuda.agent.transforms.allocation.lifetimes import Unfit
from stitchcuda.agent.units import TextEdit
from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.waits import callee_name, last_name
from stitchcuda.analysis.order.timeline import Timeline
from stitchcuda.analysis.program.ir import Api, ApiKind, Call, Function, Site, Stmt, walk

ATTRIBUTE = b"cudaMemPoolAttrReleaseThreshold"
_RUNTIME = re.compile(rb'#[ \t]*include[ \t]*[<"](cuda_runtime(_api)?\.h|cuda\.h)[">]')
_COMMENT_LINE = re.compile(rb"[ \t]*(//[^\n]*|/\*[^\n]*\*/[ \t]*\r?)\n")
_QUOTED = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"[^\n]*\n', re.MULTILINE)
_HOST_OPS = (ApiKind.HOST_READ, ApiKind.HOST_WRITE, ApiKind.NEUTRAL)


@dataclass(frozen=True, slots=True)
class Setup:
    """The edits that call the set-up once, before the first use of the device."""

    edits: tuple[TextEdit, ...]
    site: Site  # of the statement before which it is called
    function: str  # its name


def already_set(given: RuleInput) -> bool:
    """The program sets the threshold itself."""
    return any(ATTRIBUTE in text for text in given.sources.values())


def setup(given: RuleInput, allocations: Sequence[Site], model: Body) -> Setup | Unfit:
    """`allocations`: the calls that become stream-ordered; `model`: a function whose error check is taken over."""
    line = given.timeline
    places = [op for op in line.ops if op.site in allocations]
    first = places[0]
    depth = _depth(given, line, first.calls)
    if depth is None:
        return Unfit(
            first.site, "no function that runs once, before the allocations, is in a file that includes CUDA's runtime"
        )
    uid = first.calls[depth].function if depth < len(first.calls) else first.function
    body = edits.body_of(given, uid)
    assert body is not None and body.function.body is not None
    statements = list(body.function.body.body)
    uses = [_statement_at(statements, _at(op.calls, op.site, depth)) for op in line.ops if op.kind not in _HOST_OPS]
    used = min((u for u in uses if u is not None), default=None)
    allocating = _statement_at(statements, _at(first.calls, first.site, depth))
    if used is None or allocating is None:
        return Unfit(first.site, "where the program first uses the device is not known")
    place = used
    selected = [k for k, s in enumerate(statements) if _selects_device(given, s, set())]
    if selected and max(selected) >= place:
        place = max(selected) + 1
        if place > allocating:
            return Unfit(
                _site(body, statements[max(selected)]), "the device is selected after or between the allocations"
            )
    if _selects_several(given):
        return Unfit(first.site, "the program selects several devices")
    return _placed(given, body, statements[place], model)


def _placed(given: RuleInput, body: Body, statement: Stmt, model: Body) -> Setup:
    path, text = body.function.path, given.sources[body.function.path]
    newline = "\r\n" if b"\r\n" in text else "\n"
    name = _fresh("keep_freed_memory", given)
    check, include = _check(given, body, model)
    indent = _indent(body)
    opening = f"{newline}{{" if _opens_below(body) else " {"
    nothing = "void" if body.function.language == "c" else ""
    lines = [
        "// Lets the memory pool of the device keep what is freed: allocating it again is then cheap.",
        f"static void {name}({nothing}){opening}",
        f"{indent}int device = 0;",
        f"{indent}{check.format('cudaGetDevice(&device)')}",
        f"{indent}cudaMemPool_t pool;",
        f"{indent}{check.format('cudaDeviceGetDefaultMemPool(&pool, device)')}",
        f"{indent}unsigned long long threshold = ~0ULL;",
        f"{indent}{check.format('cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold)')}",
        "}",
        "",
        "",
    ]
    definition = _above_comments(text, edits.line_start(text, body.function.base))
    at = body.function.base + edits.extent(body, statement.span)[0]
    lead = text[edits.line_start(text, at) : at].decode()
    if lead.strip():  # other code stands before it on its line
        call = TextEdit(path, at, at, f"{name}(); ".encode())
    else:
        start = _above_comments(text, edits.line_start(text, at))
        call = TextEdit(path, start, start, f"{lead}{name}();{newline}".encode())
    if definition and text[edits.line_start(text, definition - 1) : definition].strip():
        lines.insert(0, "")
    made = [TextEdit(path, definition, definition, newline.join(lines).encode()), call]
    if include is not None:
        where = _include_place(text, include)
        made.insert(0, TextEdit(path, where, where, f'#include "{include}"{newline}'.encode()))
    return Setup(tuple(made), _site(body, statement), name)


def _depth(given: RuleInput, line: Timeline, calls: tuple[Site, ...]) -> int | None:
    """How far down the call path stands the first function that can call the runtime and runs once."""
    chain = [line.entry, *(s.function for s in calls[1:])]
    for depth, uid in enumerate(chain):
        body = edits.body_of(given, uid)
        if body is None or body.function.body is None or body.function.has_error:
            return None
        if _sees_runtime(given, body.function):
            return depth
        if depth < len(calls) and edits.loops_around(body, calls[depth].span):
            return None
    return None


def _sees_runtime(given: RuleInput, function: Function) -> bool:
    if function.path.endswith((".cu", ".cuh")):
        return True
    seen = given.program.visible.get(function.path, frozenset({function.path}))
    return any(_RUNTIME.search(given.sources[p]) for p in seen if p in given.sources)


def _at(calls: tuple[Site, ...], site: Site, depth: int) -> Site:
    return calls[depth] if depth < len(calls) else site


def _statement_at(statements: Sequence[Stmt], site: Site) -> int | None:
    return next((k for k, s in enumerate(statements) if edits.contains(s.span, site.span)), None)


def _selects_device(given: RuleInput, node: Stmt, seen: set[str]) -> bool:
    for inner in walk(node):
        if isinstance(inner, Api) and inner.kind is ApiKind.SET_DEVICE:
            return True
        if isinstance(inner, Call):
            for uid in given.program.by_name.get(last_name(callee_name(inner)), ()):
                body = given.program.functions[uid].body
                if uid not in seen and body is not None:
                    seen.add(uid)
                    if _selects_device(given, body, seen):
                        return True
    return False


def _selects_several(given: RuleInput) -> bool:
    calls = {
        Site(uid, function.path, node.span)
        for uid in given.timeline.functions
        if (function := given.program.functions[uid]).body is not None
        for node in walk(function.body)
        if isinstance(node, Api) and node.kind is ApiKind.SET_DEVICE
    }
    return len(calls) > 1


def _check(given: RuleInput, body: Body, model: Body) -> tuple[str, str | None]:
    """The user's error check as a format, and the header to include for it. Without one in sight, none: what fails here
    only costs time."""
    written = edits.checked(model, "cudaGetDevice()", 0)
    word = re.match(r"[A-Za-z_]\w*", written)
    if written == "cudaGetDevice();" or word is None:
        return "{};", None
    form = written.replace("{", "{{").replace("}", "}}").replace("cudaGetDevice()", "{}")
    define = re.compile(
        rb"^[ \t]*#[ \t]*define[ \t]+" + word[0].encode() + rb"\b|\b" + word[0].encode() + rb"\s*\([^;{}]*\)\s*\{",
        re.MULTILINE,
    )
    homes = [path for path, text in given.sources.items() if define.search(text)]
    visible = given.program.visible.get(body.function.path, frozenset()) | {body.function.path}
    declared = given.program.declarations.get(word[0], ())
    if any(given.program.functions[uid].path in visible - {body.function.path} for uid in declared):
        return form, None
    for home in homes:
        found = define.search(given.sources[home])
        if home == body.function.path:
            if found is not None and found.start() < body.function.base:
                return form, None
        elif home in visible:
            return form, None
    for home in homes:
        base = home.rsplit("/", 1)[-1]
        here = body.function.path.rpartition("/")[0]
        if model.function.path.rpartition("/")[0] != here:
            continue  # the header's name may mean something else there
        for match in _QUOTED.finditer(given.sources[model.function.path]):
            if match[1].decode(errors="replace").rsplit("/", 1)[-1] == base:
                return form, match[1].decode(errors="replace")
    return "{};", None


def _include_place(text: bytes, name: str) -> int:
    """Where an include of a header of the program goes: in order, when those that are there are in order."""
    found = list(_QUOTED.finditer(text))
    names = [m[1].decode(errors="replace") for m in found]
    if not found:
        others = list(re.finditer(rb"^[ \t]*#[ \t]*include[^\n]*\n", text, re.MULTILINE))
        return others[-1].end() if others else 0
    if names == sorted(names):
        for match, known in zip(found, names, strict=True):
            if known > name:
                return match.start()
    return found[-1].end()


def _indent(body: Body) -> str:
    """One level, as the function's first statement has it."""
    assert body.function.body is not None
    for statement in body.function.body.body:
        start = edits.extent(body, statement.span)[0]
        lead = body.text[body.text.rfind(b"\n", 0, start) + 1 : start]
        if lead and not lead.strip():
            return lead.decode()
    return "    "


def _opens_below(body: Body) -> bool:
    assert body.function.body is not None
    head = body.text[: body.function.body.span[0]]
    return bool(re.search(rb"\n[ \t]*\Z", head))


def _above_comments(text: bytes, start: int) -> int:
    """The start of the comments that stand right above a line, or above one blank line above it."""
    blank = re.search(rb"\n([ \t]*\r?\n)\Z", text[:start])
    if blank is not None and _comment_above(text, blank.start(1)) is not None:
        above = _above_comments(text, blank.start(1))
        return above if above > 0 else start  # else it is about the file
    while (above_it := _comment_above(text, start)) is not None:
        start = above_it
    return start


def _comment_above(text: bytes, start: int) -> int | None:
    """The start of the comment, of one line or of several, that ends in the line above; None when there is none."""
    if start == 0:
        return None
    above = edits.line_start(text, start - 1)
    if _COMMENT_LINE.fullmatch(text[above:start]):
        return above
    end = re.search(rb"\*/[ \t]*\r?\n\Z", text[:start])
    opening = text.rfind(b"/*", 0, end.start()) if end is not None else -1
    if end is None or opening < 0 or b"*/" in text[opening : end.start()]:
        return None
    nested = text.rfind(b"/*", 0, opening) > text.rfind(b"*/", 0, opening)
    above = edits.line_start(text, opening)
    return above if not nested and not text[above:opening].strip() else None


def _fresh(wish: str, given: RuleInput) -> str:
    name, count = wish, 2
    while any(re.search(rf"\b{name}\b".encode(), text) for text in given.sources.values()):
        name, count = f"{wish}{count}", count + 1
    return name


def _site(body: Body, statement: Stmt) -> Site:
    return Site(body.function.uid, body.function.path, statement.span)
