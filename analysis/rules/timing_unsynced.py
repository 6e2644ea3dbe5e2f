"""A time is taken although the timed work may not have completed.

## What

- A host clock (`std::chrono`, `clock_gettime`, `gettimeofday`, `omp_get_wtime`, ...) is read before and after
  asynchronous work, and nothing makes the host wait for that work before the second reading.
- `cudaEventElapsedTime` is called and nothing waited for its events.

An interval of which the names around it, its printed text or a comment say that it is of the asking ("launch overhead", "time to
enqueue", "without sync", `cpu_time`, ...) is `possible`, which `check` reports with `--confidence possible` only.

Work that a later blocking copy or any other wait covers before the clock is read is fine, and so are intervals without
device work.

## Why

Launches and asynchronous copies return at once (O2): the clock measures how long it takes to ask for the work, not how
long the work takes. `cudaEventElapsedTime` of an event that is not complete fails with `cudaErrorNotReady` and leaves
the time as it was (E4).

## Example

```cuda
auto start = std::chrono::steady_clock::now();
work<<<grid, block>>>(x);
auto stop = std::chrono::steady_clock::now();  // work may just have started
```

## Use instead

```cuda
auto start = std::chrono::steady_clock::now();
work<<<grid, block>>>(x);
cudaDeviceSynchronize();
auto stop = std::chrono::steady_clock::now();
```

When the cost of asking is what you want to know, say so: `// stitchcuda: ignore[timing-unsynced] time of the launch`.

## Fix safety

The fix waits for the stop event, or for the device, before the time is taken. The host stalls there, which is what the
measurement needs; the numbers it prints change.

## References

Ordering rows E4, O2, C1, C3, W1, W2, W3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stitchcuda.analysis.findings import edits, wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Fix, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.lifetimes import released_since, under
from stitchcuda.analysis.findings.race import weaker
from stitchcuda.analysis.order.timeline import Measurement, Memory, Op, Timeline
from stitchcuda.analysis.program.ir import Api, ApiKind, Call, If, Member, Name, Site, Span, walk

CODE = "timing-unsynced"
_TIMED = frozenset({ApiKind.LAUNCH, ApiKind.LIBRARY_CALL, ApiKind.GRAPH_LAUNCH, ApiKind.COPY})
# words by which programs say that the time of asking is what they measure
_ON_PURPOSE = re.compile(r"launch|overhead|enqueue|submi[ts]|issue|dispatch|async|cpu|calls?_?time", re.IGNORECASE)

_SAID = re.compile(
    r"\benqueu|overhead|submission|without (sync|wait)|(launch|dispatch|issue)[ _-](time(?!_step)|latency|rate|cost|throughput)|"
    r"(time|latency|cost|rate) (to|of|taken to) (the )?(launch|enqueue|submit|issue|dispatch)",
    re.IGNORECASE,
)
# the same in the name of a class or function that does the measuring; not `launchTimed`, `launchTimeStep`, `ghost_only`
_NAMED = re.compile(
    r"(cpu|(?<!g)host)_?only|overhead|(no|without)_?(sync|wait)|"
    r"(launch|enqueue|submit|issue|dispatch)_?(latency|rate|cost|time(?!(?-i:[dr])|_?(step|loop)))",
    re.IGNORECASE,
)
_LINES = 4  # around the interval that are looked at


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    waited = _measured_with_wait(line)
    for measured in line.measurements:
        if measured.site.function not in given.program.functions:
            continue
        if measured.events is not None:
            yield from _events(given, measured)
        else:
            yield from _clock(given, measured, waited)


def _events(given: RuleInput, measured: Measurement) -> Iterator[Finding]:
    line = given.timeline
    late = [op for op in line.ops if measured.running >> op.id & 1]
    if not late or measured.unrecorded:
        return
    level = Confidence.CERTAIN
    if all(measured.maybe >> op.id & 1 for op in late):
        level = Confidence.POSSIBLE
    if any(line.events[op.event].site is None for op in late if op.event is not None):
        level = weaker(level, Confidence.LIKELY)
    record = late[-1]
    name = line.events[record.event].name if record.event is not None else ""
    message = f"`{measured.api}` asks for the time of event `{name}` that may not have completed"
    related = Related(record.site, f"event `{name}` is recorded here; nothing waits for it")
    yield _finding(given, measured, level, message, (related,), record)


def _clock(given: RuleInput, measured: Measurement, waited: dict[Site | None, int]) -> Iterator[Finding]:
    line = given.timeline
    late = [op for op in line.ops if measured.running >> op.id & 1 and _is_timed(line, op)]
    if not late:
        return
    level = Confidence.CERTAIN if all(op.certain for op in late) else Confidence.LIKELY
    if given.program.functions[measured.site.function].language == "python":
        level = Confidence.LIKELY  # a library function may wait for what it needs on the host
        past = measured.since & ~measured.running
        if any(past >> op.id & 1 and _is_timed(line, op) for op in line.ops):
            level = Confidence.POSSIBLE  # the time since the program began, in a log
    if all(measured.maybe >> op.id & 1 for op in late):
        return  # something unknown may have waited: often it is there to do so
    sure = [op for op in late if not measured.maybe >> op.id & 1]
    mask = sum(1 << op.id for op in sure)
    if mask & ~waited.get(measured.start, 0) == 0 or _timed_by_events(line, measured):
        level = Confidence.POSSIBLE  # another time covers the work properly: this one is of the asking
    if (
        _named_on_purpose(given, measured)
        or _called_on_purpose(measured)
        or _said_nearby(given, measured)
        or released_since(line, mask, measured.covered) == mask
        or all(_of_the_other_version(given, measured, op) for op in sure)
    ):
        level = Confidence.POSSIBLE
    last = sure[-1]
    message = (
        f"`{measured.api}` reads the clock while {wording.operation(last)}{wording.on_stream(line, last)} may still be "
        "running: the time leaves out what has not completed"
    )
    related = [Related(last.site, f"{wording.operation(last)} is issued here; nothing waits for it")]
    if measured.start is not None:
        related.append(Related(measured.start, "the time starts here"))
    yield _finding(given, measured, level, message, tuple(related), last)


def _is_timed(line: Timeline, op: Op) -> bool:
    """Work whose time a program wants; a synchronous upload is over for the host when it returns (C1)."""
    if op.kind not in _TIMED or op.graph is not None:
        return False
    if op.kind is ApiKind.LIBRARY_CALL and not op.accesses:
        return False  # on host memory, or on what is not known
    if op.kind is not ApiKind.COPY:
        return True
    host = {"h2d": "src", "d2h": "dst"}.get(op.copy_kind)
    sides = [line.buffers[a.buffer].memory for a in op.accesses if a.via == host]
    pinned = bool(sides) and not any(m in (Memory.PAGEABLE, Memory.UNKNOWN) for m in sides)
    return op.asynchronous and (pinned or op.copy_kind in ("d2d", "peer"))


def _measured_with_wait(line: Timeline) -> dict[Site | None, int]:
    """By start of a measurement: the work that another reading, for which the host waited, covers."""
    out: dict[Site | None, int] = {}
    for measured in line.measurements:
        if measured.events is None and measured.start is not None:
            out[measured.start] = out.get(measured.start, 0) | (measured.since & ~measured.running)
    return out


def _timed_by_events(line: Timeline, measured: Measurement) -> bool:
    """Events recorded within the interval take the time as well."""
    return any(other.events is not None and other.since & measured.since for other in line.measurements)


def _of_the_other_version(given: RuleInput, measured: Measurement, op: Op) -> bool:
    """A class that works on the host and one that works on the device are called through their base, and the clock is read
    where the first is in use: the other branch records an event. That object and condition belong together is not seen."""
    body = edits.body_of(given, measured.site.function)
    call = next((site for site in op.calls if site.function == measured.site.function), None)
    if body is None or call is None:
        return False
    called = next((n for n in edits.nodes_at(body, call.span) if isinstance(n, Call)), None)
    if called is None or not isinstance(called.callee, Member):
        return False
    named = [given.program.functions[uid] for uid in given.program.by_name.get(called.callee.name, ())]
    mine = {f.uid for f in named} & {op.function, *(site.function for site in op.calls)}
    host = [f for f in named if f.record and f.body is not None and f.uid not in given.program.reaches_cuda]
    if not host or not mine:
        return False
    for node in edits.nodes_around(body, measured.site.span):
        if isinstance(node, If) and node.otherwise is not None:
            inside = node.then.span[0] <= measured.site.span[0] < node.then.span[1]
            other = node.otherwise if inside else node.then
            if any(isinstance(n, Api) and n.kind is ApiKind.EVENT_RECORD for n in walk(other)):
                return True
    return False


def _named_on_purpose(given: RuleInput, measured: Measurement) -> bool:
    """The statement that takes the difference, or the one that reads the clock, says that it is about the asking."""
    for site in (measured.site, measured.difference):
        body = edits.text_of(given, site.function) if site is not None else None
        if body is None or site is None:
            continue
        around = edits.statements(body, site.span)
        if around and _ON_PURPOSE.search(_without_strings_of_checks(_written(body, around[-1][0].span))):
            return True
    return False


def _called_on_purpose(measured: Measurement) -> bool:
    """A class or function around the readings says so, such as `measure_cpu_only`."""
    return any(_NAMED.search("::".join(site.function.rsplit("::", 2)[1:])) for site in (measured.site, *measured.calls))


def _written(body: edits.Body, statement: Span) -> str:
    python = body.function.language == "python"
    return body.slice(statement) if python else edits.statement_text(body, statement)


def _said_nearby(given: RuleInput, measured: Measurement) -> bool:
    """The lines around the two readings say so."""
    body = edits.text_of(given, measured.site.function)
    if body is None or measured.start is None or measured.start.function != measured.site.function:
        return False
    begin, end = sorted((measured.start.span[0], measured.site.span[1]))
    for _ in range(_LINES):
        begin = edits.line_start(body.text, max(0, begin - 1))
        following = body.text.find(b"\n", end)
        end = following + 1 if following >= 0 else len(body.text)
    return bool(_SAID.search(body.text[begin:end].decode(errors="replace")))


def _without_strings_of_checks(text: str) -> str:
    """The statement without the names of CUDA's own functions."""
    return re.sub(r"\bcuda\w+|\bstd::chrono::\w+", "", text)


def _finding(
    given: RuleInput, measured: Measurement, level: Confidence, message: str, related: tuple[Related, ...], last: Op
) -> Finding:
    path = tuple(Related(site, "called from here") for site in reversed(measured.calls))
    return Finding(
        CODE, Group.CORRECTNESS, Severity.WARNING, level, measured.site, message,
        wording.distinct((*related, *path), measured.site), _fixes(given, measured, last), under(measured.conditions),
    )  # fmt: skip


def _fixes(given: RuleInput, measured: Measurement, last: Op) -> tuple[Fix, ...]:
    """Wait for the stop event, or for the device, before the statement that takes the time."""
    body = edits.body_of(given, measured.site.function)
    around = edits.statements(body, measured.site.span) if body is not None else []
    if body is None or not around:
        return ()
    place = around[-1][0].span
    call, awaited = "cudaDeviceSynchronize()", "the device"
    if measured.events is not None:
        asked = edits.call_at(body, measured.site.span)
        stop = asked.role("end_event") if isinstance(asked, Api) else None
        if isinstance(stop, Name) and last.event == measured.events[1]:
            call, awaited = f"cudaEventSynchronize({body.slice(stop.span)})", f"event `{stop.name}`"
    line = edits.checked(body, call, place[0])
    title = f"Wait for {awaited} before the time is taken (stalls the host until the work is done)"
    return (Fix(title, (edits.before(body, place, [line]),), preferred=True),)


RULE = Rule(
    CODE,
    Group.CORRECTNESS,
    Severity.WARNING,
    "a time is taken although the timed work may not have completed",
    __doc__ or "",
    check,
)
