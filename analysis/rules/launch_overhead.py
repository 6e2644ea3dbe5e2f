"""A loop issues many launches too short to hide their own overhead.

## What

A loop launches kernels of at most 16,384 threads (known from the source) whose threads go through no loop of unknown
length, and does nothing else with the device: no copy, no wait, and the host does not look at results.

## Why

A launch costs the host two to five microseconds, and the device about as long to start it. A kernel that is done in less
leaves the device idle most of the time, however many of them are queued. A CUDA graph that holds the kernels of a round
(or of many rounds) is launched at once, and a fused kernel is one launch.

## Example

```cuda
for (int step = 0; step < steps; ++step) {
    forces<<<4, 256, 0, s>>>(x, f);
    move<<<4, 256, 0, s>>>(x, v, f);
}
```

## Use instead

```cuda
cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
for (int k = 0; k < 100; ++k) {
    forces<<<4, 256, 0, s>>>(x, f);
    move<<<4, 256, 0, s>>>(x, v, f);
}
cudaStreamEndCapture(s, &graph);
cudaGraphInstantiate(&exec, graph, 0);
for (int step = 0; step < steps; step += 100) cudaGraphLaunch(exec, s);
```

## Fix safety

There is no automatic fix: a graph keeps the arguments that the launches had when it was made, and fusing kernels changes
them. The rule says nothing about sizes that it does not know, about loops that are timed, and about launches that are
captured already.

## References

Ordering rows G1, G5, O1.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.rounds import Repeated, always, measured, repeated_loops
from stitchcuda.analysis.findings.waits import callee_name, last_name
from stitchcuda.analysis.order.timeline import Op
from stitchcuda.analysis.program.ir import (
    ApiKind,
    Assign,
    Binary,
    Call,
    Const,
    Expr,
    Goto,
    Launch,
    Loop,
    Program,
    Site,
    walk,
)

CODE = "launch-overhead"
_THREADS = 16 * 1024  # of a launch
_ROUNDS = 8  # of a loop whose length is known
_STEPS = 64  # of a loop within a kernel
_LONG = ("sync", "sleep", "wait", "launch", "clock")  # parts of names of what may keep a thread for long


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    if line.source != "static":
        return
    told: set[Site] = set()
    for loop in repeated_loops(given):
        info = line.loops[loop.id]
        if info.trip is not None and info.trip.constant is not None and info.trip.constant < _ROUNDS:
            continue
        if _halves(loop.statement):
            continue
        launches = [op for op in loop.rounds[-1] if op.kind is ApiKind.LAUNCH]
        if not launches or not all(_harmless(op, loop) for ops in loop.rounds for op in ops):
            continue
        if len({op.stream for op in launches}) != 1 or not all(_tiny(given.program, op) for op in launches):
            continue
        if any(isinstance(n, Goto) for n in walk(loop.statement)) or measured(given, loop):
            continue
        site = (*launches[0].calls, launches[0].site)[len(info.calls)]
        if site not in told:
            told.add(site)
            yield _finding(loop, launches, site, info.site)


def _harmless(op: Op, loop: Repeated) -> bool:
    """A launch of the loop's own, or a fill of a few bytes."""
    if len(op.iteration) != loop.depth or op.graph is not None or not always(loop, op):
        return False
    if op.kind is ApiKind.MEMSET:
        size = op.bytes.constant if op.bytes is not None else None
        return op.stream is not None and size is not None and size <= 4 * _THREADS
    return op.kind is ApiKind.LAUNCH


def _tiny(program: Program, op: Op) -> bool:
    launched = op.launched
    if launched is None or launched.cooperative is not False or len(launched.kernels) != 1:
        return False
    blocks, threads = launched.blocks, launched.threads
    if blocks is None or threads is None or blocks * threads > _THREADS:
        return False
    return _short(program, launched.kernels[0], set())


def _short(program: Program, uid: str, seen: set[str]) -> bool:
    """No thread of the function can go through more than a few steps."""
    function = program.functions.get(uid)
    if function is None or function.body is None:
        return False
    seen.add(uid)
    for node in walk(function.body):
        if isinstance(node, (Launch, Goto)) or (isinstance(node, Loop) and not _counted(node)):
            return False
        if not isinstance(node, Call):
            continue
        name = last_name(callee_name(node))
        called = program.by_name.get(name, ())
        if not called and (not name or (name != "__syncthreads" and any(w in name.lower() for w in _LONG))):
            return False
        if not all(_short(program, u, seen) for u in called if u not in seen):
            return False
    return True


def _counted(loop: Loop) -> bool:
    """`k < 9` with steps of one, or a value that is halved or doubled."""
    if loop.form != "for" or not isinstance(loop.step, Assign):
        return False
    if _halves(loop):
        return True
    bounds = [_number(n.right) for n in walk(loop.condition) if isinstance(n, Binary)] if loop.condition else []
    return bool(bounds) and all(b is not None and abs(b) <= _STEPS for b in bounds)


def _halves(loop: Loop) -> bool:
    """The counter is halved or doubled: however far it goes, the rounds are few."""
    return isinstance(loop.step, Assign) and loop.step.op in (">>", "<<", "/", "*")


def _number(expr: Expr) -> int | None:
    return expr.value if isinstance(expr, Const) and isinstance(expr.value, int) else None


def _finding(loop: Repeated, launches: list[Op], site: Site, head: Site) -> Finding:
    largest = max((op.launched.blocks or 0) * (op.launched.threads or 0) for op in launches if op.launched is not None)
    what = (
        f"{len(launches)} launches of at most {largest:,} threads each"
        if len(launches) > 1
        else f"a launch of {wording.operation(launches[0])} with {largest:,} threads"
    )
    related = (
        *(Related(op.site, "launched here") for op in launches),
        Related(head, "the loop"),
        *wording.call_path(launches[0]),
    )
    return Finding(
        CODE,
        Group.PERFORMANCE,
        Severity.HINT,
        Confidence.LIKELY,
        site,
        f"every iteration makes {what}, too short to hide what a launch costs: a CUDA graph of many rounds, or one fused "
        "kernel, takes their place",
        wording.distinct(related, site),
        (),
        wording.condition(launches[0]),
    )


RULE = Rule(
    CODE,
    Group.PERFORMANCE,
    Severity.HINT,
    "a loop issues many launches too short to hide their own overhead",
    __doc__ or "",
    check,
)
