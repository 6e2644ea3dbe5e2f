"""The traced part of G4: does the run of the version leave two accesses unordered that the run of the original orders?

The race rules look at the Timelines of both full traces (`trace/timeline.py`). What they find in the original as well is told
and not held against the version; the two are matched by what the operations are and by the text of their lines. Only what is
beyond doubt fails the gate: both touch one address for sure, nothing that the trace shows or hides can have ordered them, and
the original's trace is known well enough to say that it lacks the pair. All else is told.

What a trace does not show: what the host reads and writes, orders between host threads, scalars that kernels are given, what
runs inside of graphs that were not captured, and runs that take another way. Where one of these could order a pair or hide it
in the original, the pair is not held against the version.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from stitchcuda.analysis.findings.finding import RANK, Confidence
from stitchcuda.analysis.findings.race import DEVICE_WORK, Race, all_races, without_implied
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.order.timeline import Access, Memory, Mode, Op
from stitchcuda.analysis.program.ir import RELEASES, ApiKind
from stitchcuda.gpu_validate.sanitizer import TOOLS
from stitchcuda.gpu_validate.trace.launched_kernels import LaunchedKernels
from stitchcuda.gpu_validate.trace.model import Call, CallSite, Trace
from stitchcuda.gpu_validate.trace.timeline import TOO_LONG, effects_of, timeline_of
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState

SECONDS = 5.0  # for the pairs of one trace
TRIES = 200  # pairs between two lines of which one may turn out to be beyond doubt
MOST_STREAMS, MOST_EVENTS = 128, 200_000  # by number; each operation is compared with all streams
SHOWN = 10  # findings of each kind
FLAG_BYTES = 64  # a download of so few bytes may be a flag that the host waits for

_LATER = DEVICE_WORK | {ApiKind.FREE}
_NOT_READY = 600  # cudaErrorNotReady: an answer, not an error
_PIECE = re.compile(r"cudaMem(cpy|set)Async|cuMemcpy(HtoD|DtoH|DtoD)?Async|cuMemsetD(8|16|32)Async")
_UNDERSTOOD = re.compile(
    r"cuda(Malloc|MallocAsync|MallocManaged|MallocHost|HostAlloc|HostRegister|HostUnregister|Free|FreeAsync|FreeHost)|"
    r"cuMem(Alloc|AllocAsync|AllocManaged|AllocHost|HostAlloc|HostRegister|HostUnregister|Free|FreeAsync|FreeHost)|"
    r"cudaMem(cpy|cpy2D|cpyToSymbol|cpyFromSymbol|set|set2D)(Async)?|"
    r"cuMem(cpy|cpyHtoD|cpyDtoH|cpyDtoD|cpy2D|setD8|setD16|setD32)(Async)?|(cuda)?(cu)?MemPrefetchAsync|"
    r"(cuda|cu)(LaunchKernel|LaunchCooperativeKernel|LaunchHostFunc|StreamAddCallback)|"
    r"(cuda|cu)Stream(Create|CreateWithFlags|CreateWithPriority|Destroy|Synchronize|WaitEvent)|"
    r"(cuda|cu)Event(Create|CreateWithFlags|Destroy|Record|Synchronize|ElapsedTime)|"
    r"cuda(Device|Thread)Synchronize|cuCtxSynchronize|cudaSetDevice"
)
_FROM_OUTSIDE = re.compile(rb"ExternalSemaphore|ExternalMemory|GraphicsMap|IpcOpen|IpcGet")
_POLLS = re.compile(r"(Stream|Event)Query")

Side: TypeAlias = tuple[str, str, str, str]
"""An operation: its kind, kernel, direction of the copy, and the text of its line."""
Key: TypeAlias = tuple[Side, Side]


@dataclass(frozen=True)
class TracedRun:
    """The full trace of a version, as far as there is one, and the analysis of its sources."""

    trace: Trace | None
    analysis: Analysis


@dataclass(frozen=True)
class TracedRaces:
    """`new` are races of the version alone that are beyond doubt; `told` are others, and those of the original as well.
    Sites as in the trace."""

    new: tuple[GateFinding, ...] = ()
    told: tuple[GateFinding, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)


def traced_races(before: TracedRun, after: TracedRun, seconds: float = SECONDS) -> TracedRaces:
    """Compares the two runs. `seconds` is what the pairs of each may take; what was not looked at is in the evidence."""
    for whose, run in (("the original", before), ("the version", after)):
        if reason := _unusable(whose, run.trace):
            return TracedRaces(evidence={"checked": False, "reason": f"not checked: {reason}"})
    assert before.trace is not None and after.trace is not None
    old, new = _Looked(before.trace, before.analysis, seconds), _Looked(after.trace, after.analysis, seconds)
    doubt = old.why_it_may_have_more() or new.why_order_may_be_hidden()
    lines = _lines(before.analysis)
    fails: list[_Found] = []
    doubtful: list[GateFinding] = []
    known: list[GateFinding] = []
    for key, found in new.found.items():
        if _known(key, old.found, lines):
            if found.shown:
                known.append(found.finding(baseline=True))
        elif found.certain and not doubt:
            fails.append(found)
        elif found.shown:
            doubtful.append(found.finding())
    evidence: dict[str, Any] = {
        "checked": True,
        "operations": [len(old.ops), len(new.ops)],
        "races": [len(old.found), len(new.found)],
        "new": len(fails),
    }
    if doubt:
        evidence["only_told"] = doubt
    if limits := [*old.limits("the original"), *new.limits("the version")]:
        evidence["limits"] = limits
    shown = [found.finding(fails=True) for found in new.first_of(fails)]
    return TracedRaces(tuple(shown[:SHOWN]), (*doubtful[:SHOWN], *known[:SHOWN]), evidence)


def _unusable(whose: str, trace: Trace | None) -> str:
    if trace is None or trace.mode != "full":
        return f"there is no full trace of {whose}"
    if trace.dropped:
        return f"{trace.dropped} records of the trace of {whose} were lost"
    if trace.problems:
        return f"the trace of {whose} is not whole: {trace.problems[0]}"
    if any(call.stream > MOST_STREAMS or call.event > MOST_EVENTS for call in trace.calls):
        return f"the trace of {whose} names more streams or events than are looked at"
    return "" if trace.calls else f"the trace of {whose} has no calls"


class _OutOfTime(Exception):
    pass


@dataclass
class _Found:
    """The most certain of the races between two lines."""

    race: Race
    calls: tuple[Call, Call]
    certain: bool
    tries: int

    @property
    def shown(self) -> bool:
        return RANK[self.race.confidence] >= RANK[Confidence.LIKELY]

    def finding(self, *, fails: bool = False, baseline: bool = False) -> GateFinding:
        race, (first, second) = self.race, self.calls
        doing = {Mode.READ: "reading", Mode.WRITE: "writing", Mode.ATOMIC: "writing"}[race.conflict.first.mode]
        does = "reads" if race.conflict.second.mode is Mode.READ else "writes"
        if race.later.kind is ApiKind.FREE:
            doing, does = "using", "releases"
        size = race.buffer.size.constant if race.buffer.size is not None else None
        what = f"an allocation of {size} bytes" if size else "memory"
        at = f" (line {first.sites[0].line})" if first.sites else ""
        text = (
            f"traced run: {_named(race.later)} {does} {what} that {_named(race.earlier)}{at} may still be {doing}: "
            f"nothing orders the two"
        )
        if not (fails or baseline):
            text += ", as far as the trace shows (told only)"
        site = second.sites[0] if second.sites else CallSite("", 0)
        return GateFinding(text, site.path, site.line, baseline)


def _named(op: Op) -> str:
    return f"{op.kernel or op.api} on stream {op.stream}"


class _Looked:
    """The races of one run, one a pair of lines."""

    def __init__(self, trace: Trace, analysis: Analysis, seconds: float) -> None:
        self._trace, self._analysis = trace, analysis
        traced = timeline_of(trace, effects_of(analysis.program))
        self._line, self._calls = traced.timeline, traced.calls
        self.ops = self._line.ops
        self._sides: dict[int, Side] = {}
        self._elapsed = [call.index for call in trace.calls if "ElapsedTime" in call.api]
        self._kernels = LaunchedKernels(analysis.program)
        self._strange = _first_not_understood(trace)
        self.found: dict[Key, _Found] = {}
        self.out_of_time = False
        self._until = time.monotonic() + seconds
        try:
            for race in all_races(analysis.program, self._line, DEVICE_WORK, _LATER, self._to_be_looked_at):
                self._keep(race)
        except _OutOfTime:
            self.out_of_time = True

    def _to_be_looked_at(self, earlier: Op, first: Access, later: Op, second: Access) -> bool:
        if time.monotonic() > self._until:
            raise _OutOfTime
        if later.kind is ApiKind.FREE and later.stream is None:
            return False  # cudaFree waits in practice
        known = self.found.get(self._key(earlier, later))
        return known is None or (not known.certain and known.tries < TRIES)

    def _keep(self, race: Race) -> None:
        key = self._key(race.earlier, race.later)
        known = self.found.get(key)
        certain = self._certain(race)
        if known is None or certain or RANK[race.confidence] > RANK[known.race.confidence]:
            calls = self._calls[race.earlier.id], self._calls[race.later.id]
            self.found[key] = _Found(race, calls, certain, known.tries if known else 0)
        self.found[key].tries += 1

    def first_of(self, found: Sequence[_Found]) -> list[_Found]:
        """Those that no other implies, by their lines."""
        kept = without_implied(self._line, [f.race for f in found])
        return [f for race in kept for f in found if f.race is race]

    def _key(self, earlier: Op, later: Op) -> Key:
        a, b = sorted((self._side(earlier), self._side(later)))
        return a, b

    def _side(self, op: Op) -> Side:
        if op.id not in self._sides:
            sites = self._calls[op.id].sites
            text = _text(self._analysis, sites[0]) if sites else ""
            self._sides[op.id] = op.kind.value, op.kernel, op.copy_kind, text
        return self._sides[op.id]

    # ------------------------------------------------------------------------------------------------- what is not known

    def limits(self, whose: str) -> Iterator[str]:
        """What was not looked at."""
        for cut in self._line.cuts:
            yield f"{whose}: {cut.what}"
        if self.out_of_time:
            yield f"{whose}: the time for its pairs was over before they were all looked at"

    def why_it_may_have_more(self) -> str:
        """Why this run may have races that were not found in it, "" when it has not."""
        if self._line.cuts:
            return f"the original may have more races: {self._line.cuts[0].what}"
        if self.out_of_time:
            return "the original may have more races: the time for its pairs was over"
        hidden = next((op for op in self.ops if op.unknown and "Symbol" not in op.api), None)
        if hidden is not None:
            return f"the original may have more races: what {hidden.api} touches is not known"
        return self._why_ways_differ("the original")

    def why_order_may_be_hidden(self) -> str:
        """Why operations of this run may be ordered by what its trace does not show, "" when nothing hints at it."""
        if len({call.thread for call in self._trace.calls}) > 1:
            return "several host threads of the version use CUDA: their order is not seen"
        other = next((cut for cut in self._line.cuts if cut.what != TOO_LONG), None)
        if other is not None:
            return f"the version's order is not known: {other.what}"
        if sum(call.api == "cudaSetDevice" for call in self._trace.calls) > 1:
            return "the version may use several devices"
        if any((op.graph is not None) != self._calls[op.id].captured for op in self.ops if op.kind in DEVICE_WORK):
            return "what the version captures into graphs is not understood"
        for path, text in self._analysis.sources.items():
            if _FROM_OUTSIDE.search(text):
                return f"{path} shares memory or semaphores with others: their order is not seen"
        return self._why_ways_differ("the version")

    def _why_ways_differ(self, whose: str) -> str:
        asks = next((call.api for call in self._trace.calls if _POLLS.search(call.api)), "")
        return f"{whose} asks by {asks} what is done, and may take another way in the next run" if asks else ""

    # -------------------------------------------------------------------------------------------------------- one pair

    def _certain(self, race: Race) -> bool:
        """Whether a race is beyond doubt, as far as this trace goes."""
        earlier, later = race.earlier, race.later
        if race.confidence is not Confidence.CERTAIN or race.buffer.memory is Memory.PAGEABLE:
            return False
        if later.kind is ApiKind.FREE and not race.buffer.pooled:
            return False
        if self._calls[later.id].index >= self._strange or not self._meet(race):
            return False
        if race.conflict.first.mode is race.conflict.second.mode is Mode.WRITE and _may_write_the_same(earlier, later):
            return False
        return not self._device_may_order(earlier, later) and not self._host_may_order(earlier, later)

    def _meet(self, race: Race) -> bool:
        """Both touch one address for sure."""
        first, second = race.conflict.first, race.conflict.second
        if first.buffer != second.buffer:
            return False
        one = self._touches(race.earlier, first)
        other = self._touches(race.later, second)
        return one is not None and other is not None and one[0] < other[1] and other[0] < one[1]

    def _touches(self, op: Op, access: Access) -> tuple[int, int] | None:
        """Bytes of its buffer that the access touches for sure, all of them."""
        start = access.range.offset.constant if access.range.offset is not None else None
        if start is None or op.graph is not None:
            return None
        call = self._calls[op.id]
        if op.kind is ApiKind.LAUNCH:
            base = self._base(access.buffer)
            return (
                (start, start + 1)
                if base is not None and self._kernels.touches_first(call, base + start, access.mode)
                else None
            )
        size = access.range.extent.constant if access.range.extent is not None else None
        piece = op.kind is ApiKind.FREE or (_PIECE.fullmatch(call.api) is not None and call.bytes == size)
        return (start, start + size) if piece and size else None

    def _base(self, buffer: int) -> int | None:
        """The address of an allocation."""
        op = self._line.buffers[buffer].alloc_op
        return None if op is None else self._calls[op].target

    def _device_may_order(self, earlier: Op, later: Op) -> bool:
        """Whether one of the two, or what is before one of them alone, may wait by itself for what the other's stream does."""
        line = self._line
        alone = (line.before[earlier.id] ^ line.before[later.id]) | 1 << earlier.id | 1 << later.id
        return any(
            op.kind is ApiKind.HOST_FUNC or (op.kind is ApiKind.LAUNCH and self._kernels.may_wait(op.kernel))
            for op in self.ops[: later.id + 1]
            if alone >> op.id & 1
        )

    def _host_may_order(self, earlier: Op, later: Op) -> bool:
        """Whether the host may have known, before it issued `later`, that `earlier` is done: by a call that waits in practice,
        or by a flag that the device set."""
        first, last = self._calls[earlier.id].index, self._calls[later.id].index
        if any(first < index < last for index in self._elapsed):
            return True
        return any(self._tells_host(op) for op in self.ops[earlier.id : later.id])

    def _tells_host(self, op: Op) -> bool:
        """An allocation or a free, a function on the host, or a write to memory that the host can look at."""
        if op.kind in RELEASES or op.kind in (ApiKind.ALLOC, ApiKind.HOST_ALLOC, ApiKind.REGISTER, ApiKind.HOST_FUNC):
            return True
        seen = [a for a in op.accesses if a.mode is not Mode.READ and self._on_host(a)]
        call = self._calls[op.id]
        if op.kind is ApiKind.COPY:
            return bool(seen) and call.bytes <= FLAG_BYTES
        return bool(seen)

    def _on_host(self, access: Access) -> bool:
        return self._line.buffers[access.buffer].memory is not Memory.DEVICE


def _may_write_the_same(earlier: Op, later: Op) -> bool:
    """Two fills, two copies or one kernel twice may well write the same values, so that their order is no matter."""
    if ApiKind.FREE in (earlier.kind, later.kind):
        return False
    return earlier.kernel == later.kernel


def _first_not_understood(trace: Trace) -> int:
    """The index of the first call of which it is not known what it orders; that of no call when there is none."""
    for call in trace.calls:
        failed = call.status not in (0, _NOT_READY)
        if failed or not (_UNDERSTOOD.fullmatch(call.api) or _POLLS.search(call.api)):
            return call.index
    return 1 + max(call.index for call in trace.calls)


def _known(key: Key, old: Mapping[Key, _Found], lines: frozenset[str]) -> bool:
    """Whether the original has the race as well. A line that the original does not have can be any of its lines, changed."""
    if key in old:
        return True
    changed = tuple(side[3] not in lines for side in key)
    if not any(changed):
        return False
    return any(
        all(mine[:3] == theirs[:3] and (new or mine[3] == theirs[3]) for mine, theirs, new in zip(key, pair, changed))
        for other in old
        for pair in (other, other[::-1])
    )


def _lines(analysis: Analysis) -> frozenset[str]:
    return frozenset(
        line.strip() for text in analysis.sources.values() for line in text.decode(errors="replace").splitlines()
    )


def _text(analysis: Analysis, site: CallSite) -> str:
    """The line of a site, "" for one that is not in the program."""
    source = analysis.sources.get(site.path)
    lines = source.decode(errors="replace").splitlines() if source is not None else []
    return lines[site.line - 1].strip() if 1 <= site.line <= len(lines) else ""


def with_traced_races(sanitized: GateResult | None, traced: TracedRaces) -> GateResult:
    """G4 as a whole. `sanitized` is what compute-sanitizer gave, None when it was not asked because of what the trace shows.
    New races fail the gate; without them its state is the sanitizer's."""
    not_run = dict.fromkeys(TOOLS, "not run: the traced run shows a new race")
    gate = sanitized or GateResult("G4", GateState.UNTESTED, evidence={"tools": {}, "not_run": not_run})
    evidence = {**gate.evidence, "traced": traced.evidence}
    findings = (*traced.new, *gate.findings, *traced.told)
    if not traced.new or gate.state is GateState.FAILED:
        return replace(gate, evidence=evidence, findings=findings)
    more = f" and {len(traced.new) - 1} more" if len(traced.new) > 1 else ""
    return GateResult("G4", GateState.FAILED, f"new race: {traced.new[0].what}{more}", evidence, findings)
