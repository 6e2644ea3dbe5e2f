"""Share of host functions with CUDA calls of which the analysis resolves every operation, and what the others lack.

    python benchmarks/resolution.py TREE... [--context FOLDER]... [--every N]

Headers that lie elsewhere are found in the folders given as context.

A function counts as resolved when every operation written in it, on every call path that was followed, has a known stream
(traced to its creation or to a default stream, through the parameters of every caller) and known memory (traced to its
allocation or declaration), and its kernels are known. Functions that nobody calls, `main` aside, have streams and
pointers from outside by their nature: they, and what only they call in a program that has a `main`, are a column of their
own and do not count. A library has no `main`: there a stream or memory is known when it is traced to what one of the
entries is given; functions that need this are told apart. An entry too large to be followed to its end is followed as far
as the bounds allow, and what lies beyond is looked at from the start of the functions there: what these are given counts
as what an entry is given does. HIP programs are left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from stitchcuda.analysis.index import Index
from stitchcuda.analysis.order.timeline import Memory, Op, StreamKind, Timeline
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind, Function, Program
from stitchcuda.server.cli import inputs, programs

KNOWN_STREAMS = (StreamKind.CREATED, StreamKind.LEGACY, StreamKind.PER_THREAD, StreamKind.GRAPH)
KNOWN_ORIGINS = ("alloc", "local", "global")
NO_OPERATION = frozenset({ApiKind.NEUTRAL, ApiKind.SET_DEVICE, ApiKind.SET_STREAM, ApiKind.DEVICE_POINTER})
UNMODELLED = "call: not modelled (graphics interop, external memory, virtual memory, ...)"
NOT_EXECUTED = "never executed: not reached from an entry, or the analysis stopped before it"
OUTSIDE = "a parameter of a function that nobody calls"
BOUNDARY = {f"stream: {OUTSIDE}", f"memory: {OUTSIDE}"}


@dataclass
class Tally:
    functions: int = 0
    uncalled: int = 0
    without: int = 0  # only queries, device choice and the like: no operation to resolve
    resolved: int = 0
    at_the_boundary: int = 0  # of the resolved: traced to what the entries of a library are given
    lacking: Counter[str] = field(default_factory=Counter)  # reason -> functions
    first: dict[str, list[str]] = field(default_factory=dict)  # reason -> examples

    def add(self, other: Tally) -> None:
        self.functions += other.functions
        self.uncalled += other.uncalled
        self.without += other.without
        self.resolved += other.resolved
        self.at_the_boundary += other.at_the_boundary
        self.lacking.update(other.lacking)
        for reason, examples in other.first.items():
            self.first.setdefault(reason, []).extend(examples)


def lacks(timeline: Timeline, program: Program, op: Op) -> Iterator[str]:
    """What is not known about one operation."""
    if op.stream is not None:
        stream = timeline.streams[op.stream]
        if stream.kind is StreamKind.PARAMETER:
            yield f"stream: {OUTSIDE}"
        elif stream.kind not in KNOWN_STREAMS:
            yield "stream: not known"
    for access in op.accesses:
        buffer = timeline.buffers[access.buffer]
        if buffer.origin == "parameter":
            yield f"memory: {OUTSIDE}"
        elif buffer.origin not in KNOWN_ORIGINS or buffer.memory is Memory.UNKNOWN:
            yield "memory: not known"
    if op.kind is ApiKind.LAUNCH:
        kernels = [u for u in program.by_name.get(op.kernel, ()) if program.functions[u].space == "global"]
        if not kernels:
            yield "kernel: its definition is not in the program"
        elif op.unknown:
            yield "memory: an argument of the kernel is not known"
    elif op.unknown:
        yield "memory: one side of a copy is not known"
    elif op.kind in (ApiKind.MEMSET, ApiKind.FREE, ApiKind.HOST_FREE) and not op.accesses:
        yield "memory: the operand is not known"


def reached(program: Program) -> set[str]:
    """The functions that the entries call, directly or not, by the names that they mention."""
    callees: dict[str, set[str]] = {}
    for uid, callers in program.callers.items():
        for caller in callers:
            callees.setdefault(caller, set()).add(uid)
    found = set(program.entries)
    waiting = list(found)
    while waiting:
        new = callees.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def tally(functions: Sequence[Function], timelines: Sequence[Timeline], program: Program) -> Tally:
    ops: dict[str, list[tuple[Timeline, Op]]] = {}
    for timeline in timelines:
        for op in timeline.ops:
            ops.setdefault(op.function, []).append((timeline, op))
    result = Tally()
    called = reached(program)
    library = not program.with_main and all(m.entry is None for m in program.modules.values())
    for function in functions:
        result.functions += 1
        called_by = program.callers.get(function.uid)
        if function.name not in ("main", "<module>") and (not called_by or function.uid not in called):
            result.uncalled += 1
            continue
        nodes = list(ir.walk(function.body)) if function.body is not None else []
        kinds = {node.kind for node in nodes if isinstance(node, ir.Api)}
        if kinds <= NO_OPERATION and not any(isinstance(node, ir.Launch) for node in nodes):
            result.without += 1
            continue
        found = ops.get(function.uid, [])
        reasons = {reason for timeline, op in found for reason in lacks(timeline, program, op)}
        if ApiKind.UNMODELLED in kinds:
            reasons.add(UNMODELLED)
        elif not found:
            reasons = {NOT_EXECUTED}
        if library and reasons and reasons <= BOUNDARY:
            result.at_the_boundary += 1
            reasons = set()
        if not reasons:
            result.resolved += 1
        for reason in reasons:
            result.lacking[reason] += 1
            result.first.setdefault(reason, []).append(f"{function.path}: {function.qualified}")
    return result


def one_program(group: programs.Group) -> Tally:
    index = Index(findings=False)
    texts = group.texts()
    hip, runtime = (any(word in text for text in texts.values()) for word in (b"hip/hip_runtime", b"cuda_runtime"))
    if hip and not runtime:
        return Tally()  # a HIP program: launches look like CUDA's, its API is another
    for path, text in texts.items():
        index.put(path, text)
    analysis = index.analyse()
    own = set(group.sources)
    functions = [
        f
        for f in analysis.program.functions.values()
        if f.host_cuda_calls and f.body is not None and f.path in own and f.space in ("host", "host_device")
    ]
    return tally(functions, analysis.timelines, analysis.program)


def planned(tree: str, context: Sequence[str]) -> list[programs.Group]:
    """The programs of a tree."""
    files = inputs.find([tree]).files
    own = set(files)
    groups = programs.plan([*files, *(f for f in inputs.find(context).files if f not in own)], [tree]).groups
    return [group for group in groups if not own.isdisjoint(group.sources)]


def report(tree: str, total: Tally, programs_: int, seconds: float, examples: int) -> None:
    counted = total.functions - total.uncalled - total.without
    share = f"{100 * total.resolved / counted:.1f} %" if counted else "-"
    print(f"{tree}: {programs_} programs, {seconds:.0f} s")
    print(f"  host functions with CUDA calls  {total.functions}")
    print(f"  nobody calls them (not counted) {total.uncalled}")
    print(f"  no operation in them (likewise) {total.without}")
    print(f"  every operation resolved        {total.resolved} of {counted} = {share}")
    if total.at_the_boundary:
        print(f"    of these traced to what the entries of a library are given: {total.at_the_boundary}")
    for reason, count in total.lacking.most_common():
        print(f"    {count:5}  {reason}")
        for example in total.first[reason][:examples]:
            print(f"             {example}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trees", nargs="+", metavar="TREE")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--examples", type=int, default=0, help="functions to name for each reason")
    parser.add_argument("--context", action="append", default=[], metavar="FOLDER", help="where more headers are")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth program")
    arguments = parser.parse_args()
    for tree in arguments.trees:
        start = time.monotonic()
        groups = planned(tree, arguments.context)[:: arguments.every]
        total = Tally()
        with ProcessPoolExecutor(arguments.jobs) as pool:
            for part in pool.map(one_program, groups, chunksize=4):
                total.add(part)
        report(tree, total, len(groups), time.monotonic() - start, arguments.examples)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
