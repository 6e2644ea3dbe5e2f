"""Removes host waits that nothing relies on.

## Changes

A statement that is `cudaDeviceSynchronize`, `cudaStreamSynchronize` or `cudaEventSynchronize`, bare or within the user's
check, is deleted: one unit a function.

## What must be proved

The program is executed again without the waits. Wherever work was known to be complete with them and no longer is, on
any call path from `main`, nothing may need it: no host access to memory that the work touches, no release, no clock,
profiler, error-free end of the program or call into code that is not here (MPI, files, other threads), no later device work on
the same memory without an order of its own, no kernel that prints or asserts. An error of the work that a removed check
would have reported must be reported by a later checked call that waits, on every path to the end of the program. All waits
that are proposed may go together; keeping some of them only adds order, so each may also go alone.

`cudaFree` counts as a wait for what it releases when that work is on the default or a blocking stream (W8: it does in
practice; hoist-allocation makes it an order that is documented).

## What it may change

Fewer host waits; nothing else. Errors of device work are reported at a later call.

## What the validator must see

Equal results, and fewer waits in the trace.

## Refusals

Each wait that is kept is told with the line that needs it, or why it cannot be taken out of the text: a macro hides it, its
status is used, it stands within `#if`, the program is not whole, several devices or host threads issue work, code is met
that the analysis does not model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from stitchcuda.agent.transforms.editing import line_of, merged_removals, placed, without_statement
from stitchcuda.agent.transforms.transform import Outcome, Proposal, Refusal, Situation
from stitchcuda.agent.transforms.waiting.observers import Observers
from stitchcuda.agent.transforms.waiting.reliance import enqueued_work, host_visible, reliances
from stitchcuda.agent.transforms.waiting.statements import in_parallel_region, is_checked, may_be_checked, removable
from stitchcuda.agent.units import Obligation
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.waits import (
    callee_name,
    explicit_waits,
    last_name,
    members,
    quiet,
    region_is_plain,
)
from stitchcuda.analysis.order.execute import END, execute_entry
from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.order.symbolic import ONE, at_least
from stitchcuda.analysis.order.timeline import Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import HOST_WAITS, ApiKind, Call, Site, Stmt, walk_within
from stitchcuda.analysis.proof.context import may_create_context
from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.analysis.syntax.text import LineIndex

ID = "remove-wait"
DECLARED = Declared((ID,), waits=May.FEWER)
_LOOPS = 12  # combinations of loops that may have no round
_ROUNDS = 24  # each takes back at least one wait


def find(situation: Situation) -> Outcome:
    """The waits that may go, together or alone."""
    search = _Search(situation)
    search.run()
    return search.outcome()


@dataclass(frozen=True, slots=True)
class _Candidate:
    body: Body
    statement: Stmt
    api: str


@dataclass
class _Entry:
    """One entry of the program, executed with observers: with all waits, and without the candidates."""

    with_waits: Timeline
    observed: dict[Site, str]
    strangers: dict[Site, str]
    options: Options


@dataclass
class _Search:
    situation: Situation
    kept: dict[Site, tuple[Site | None, str]] = field(default_factory=dict)  # wait -> what needs it, and why it stays
    candidates: dict[Site, _Candidate] = field(default_factory=dict)
    surfacing: dict[Site, Op] = field(default_factory=dict)  # wait -> the later call that reports the work's errors

    def run(self) -> None:
        analysis = self.situation.analysis
        observers = Observers(analysis.program)
        for line in analysis.timelines:
            self._collect(line, observers)
        if not self.candidates:
            return
        entries = [e for e in (self._entry(line, observers) for line in analysis.timelines) if e is not None]
        for _ in range(_ROUNDS):
            if not self.candidates or not self._take_back(entries):
                return
        for site in list(self.candidates):
            self._keep(site, None, "what relies on it could not be settled")

    def outcome(self) -> Outcome:
        analysis = self.situation.analysis
        program = analysis.program
        lines = {path: LineIndex.of(text) for path, text in analysis.sources.items()}
        by_function: dict[str, list[Site]] = defaultdict(list)
        for site in sorted(self.candidates):
            by_function[site.function].append(site)
        proposals = []
        for uid, sites in by_function.items():
            obligations = []
            edits = []
            for site in sites:
                made = self.candidates[site]
                edits.append(placed(program, without_statement(made.body, made.statement.span)))
                obligations.append(self._obligation(site, made.api, lines))
            name = program.functions[uid].name
            calls = ", ".join(dict.fromkeys(f"`{self.candidates[s].api}`" for s in sites))
            plural = "s" if len(sites) > 1 else ""
            proposals.append(
                Proposal(
                    ID,
                    f"`{name}` waits on the host with {calls} although nothing relies on the wait{plural}",
                    program.functions[uid].path,
                    line_of(program, lines, sites[0]),
                    merged_removals(edits),
                    DECLARED,
                    tuple(obligations),
                    tuple(sites),
                )
            )
        refusals = []
        for site, (needs, reason) in sorted(self.kept.items(), key=lambda kept: kept[0]):
            place = needs if needs is not None else site
            wait = "" if needs is None else f"the wait in line {line_of(program, lines, site)} of {site.path} stays: "
            refusals.append(Refusal(ID, place.path, line_of(program, lines, place), wait + reason))
        proposals.sort(key=lambda p: (p.path, p.line))
        return Outcome(tuple(proposals), tuple(refusals))

    # ------------------------------------------------------------------------------------------------------ candidates

    def _collect(self, line: Timeline, observers: Observers) -> None:
        """The waits of an entry that the text and the entry as a whole allow to go."""
        analysis = self.situation.analysis
        given = RuleInput(line, analysis.program, analysis.sources)
        waits = explicit_waits(line)
        if not waits:
            return
        whole = self._unfit(line, observers)
        work = enqueued_work(line)
        for site, ops in waits.items():
            if any(op.api.endswith("Reset") or op.api == "cudaThreadExit" for op in ops):
                continue  # not a wait that anybody would remove
            found = whole or self._local(given, ops, work)
            if found is None:
                made = removable(given, ops[0], observers)
                if not isinstance(made, str):
                    if site not in self.kept:
                        self.candidates[site] = _Candidate(*made, ops[0].api)
                    continue
                found = (None, made)
            self._keep(site, *found)

    def _unfit(self, line: Timeline, observers: Observers) -> tuple[Site | None, str] | None:
        """What forbids to remove any wait of this entry."""
        program = self.situation.analysis.program
        if program.functions[line.entry].name != "main":
            return None, f"the program is not whole: who calls `{program.functions[line.entry].name}` is not known"
        if line.cuts:
            return line.cuts[0].site, f"the analysis does not know what happens here: {line.cuts[0].what}"
        devices = {op.device for op in line.ops}
        if len(devices) > 1 or None in devices:
            other = next(op for op in line.ops if op.device != line.ops[0].device or op.device is None)
            return other.site, "the program uses several devices"
        threads = next((op for op in line.ops if op.thread != line.ops[0].thread), None)
        if threads is not None:
            return threads.site, "several host threads issue work"
        return observers.measuring_object(line.functions)

    def _local(self, given: RuleInput, ops: list[Op], work: int) -> tuple[Site | None, str] | None:
        """What forbids to remove this wait, whatever others do."""
        line = given.timeline
        for op in ops:
            if not op.certain:
                return None, "it is reached through something that is not resolved"
            if in_parallel_region(given, op):
                return None, "a parallel region of host threads may lead to it"
            if may_create_context(line, op):
                return (
                    None,
                    "it may be the first call of the CUDA runtime, which creates the context: a later one would take longer",
                )
            loud = next(
                (k for k in members(line.earlier[op.id] & work) if not quiet(given.program, line, line.ops[k])), None
            )
            if loud is not None:
                name = line.ops[loud].kernel or line.ops[loud].api
                return line.ops[
                    loud
                ].site, f"`{name}` may print or assert, for all that is known, and only a wait brings that to light"
        return None

    # ---------------------------------------------------------------------------------------------------------- orders

    def _entry(self, line: Timeline, observers: Observers) -> _Entry | None:
        if not any(op.site in self.candidates for op in line.ops):
            return None
        observed = observers.sites(line.functions)
        per_thread = any(s.kind is StreamKind.PER_THREAD for s in line.streams)
        options = Options(per_thread_default_stream=per_thread, observed=frozenset(observed))
        strangers = observers.strangers(line.functions)
        return _Entry(self.situation.analysis.executed(line.entry, options), observed, strangers, options)

    def _executed(self, entry: str, options: Options, without: Iterable[Site]) -> Timeline:
        options = Options(
            per_thread_default_stream=options.per_thread_default_stream,
            observed=options.observed,
            not_waiting=frozenset(without),
        )
        analysis = self.situation.analysis
        return execute_entry(analysis.program, entry, options=options, sources=analysis.sources)

    def _take_back(self, entries: list[_Entry]) -> bool:
        """Keeps the waits that something needs when all candidates are gone; whether there were any."""
        before = len(self.candidates)
        for entry in entries:
            self._take_back_in(entry)
        return len(self.candidates) < before

    def _take_back_in(self, entry: _Entry) -> None:
        line = entry.with_waits
        without = self._executed(line.entry, entry.options, self.candidates)
        if not _same_ops(line, without):
            for op in line.ops:
                self._keep(
                    op.site, None, "which paths the program takes depends on it, as far as the analysis can tell"
                )
            return
        waits = [op for op in line.ops if op.site in self.candidates]
        for reliance in reliances(line, _lost(line, without), entry.observed):
            self._blame(line, waits, reliance.op, reliance.work, without, reliance.reason)
        self._unseen_work(entry, waits)
        if any(op.site not in self.candidates for op in waits):
            return  # what remains is looked at with these waits back in place
        self._without_rounds(entry, waits)  # executes the program many times, so it comes late
        if any(op.site not in self.candidates for op in waits):
            return
        for wait in waits:
            self._seen_by_host(line, without, wait)
        if all(op.site in self.candidates for op in waits):
            self._errors(entry)

    def _blame(self, line: Timeline, waits: list[Op], op: int, work: int, without: Timeline, reason: str) -> None:
        """Keeps the last waits that made this work complete for that op."""
        for wait in reversed(waits):
            if not work:
                return
            done = wait.waits & ~without.before[wait.id] & work
            if line.earlier[op] >> wait.id & 1 and done:
                work &= ~done
                self._keep(wait.site, line.ops[op].site, reason)

    def _without_rounds(self, entry: _Entry, waits: list[Op]) -> None:
        """The Timeline runs every loop at least once. A wait in a loop that may have no round at all counts only for work
        and for users that stand in that loop themselves."""
        line = entry.with_waits
        loops = [_perhaps_empty(line, op) for op in line.ops]
        around: dict[Site, frozenset[Site]] = defaultdict(frozenset)
        for op in line.ops:
            if _blocks(op):
                around[op.site] |= loops[op.id]
        kept = [inside for site, inside in around.items() if site not in self.candidates]
        if all(inside <= loops[wait.id] for inside in kept for wait in waits):
            return  # no round, no wait that could be missed
        bare = self._executed(
            line.entry, entry.options, {*self.candidates, *(s for s, inside in around.items() if inside)}
        )
        pairs = list(reliances(line, _lost(line, bare), entry.observed)) if _same_ops(line, bare) else []
        keys = {loops[k] | loops[pair.op] for pair in pairs for k in members(pair.work)}
        if len(keys) > _LOOPS or not _same_ops(line, bare):
            for wait in waits:
                self._keep(wait.site, None, "what happens when a loop has no round could not be settled")
            return
        for key in sorted(keys, key=sorted):
            outside = {site for site, inside in around.items() if not inside <= key}
            known = self._executed(line.entry, entry.options, outside)
            run = self._executed(line.entry, entry.options, {*self.candidates, *outside})
            alike = _same_ops(line, known) and _same_ops(line, run)
            lost = _lost(known, run) if alike else _lost(line, bare)
            for reliance in reliances(line, lost, entry.observed):
                work = sum(1 << k for k in members(reliance.work) if loops[k] | loops[reliance.op] == key)
                self._blame(line, waits, reliance.op, work, run if alike else bare, reliance.reason)

    def _unseen_work(self, entry: _Entry, waits: list[Op]) -> None:
        """Code that is not here may have started work of its own: the next wait for the device stays."""
        line = entry.with_waits
        strangers = [op for op in line.ops if op.kind is ApiKind.NEUTRAL and op.site in entry.strangers]
        for wait in waits:
            kept = [
                op
                for op in line.ops
                if op.kind is ApiKind.DEVICE_SYNC
                and op.site not in self.candidates
                and line.earlier[wait.id] >> op.id & 1
            ]
            for stranger in strangers:
                covered = any(line.earlier[op.id] >> stranger.id & 1 for op in kept)
                if line.earlier[wait.id] >> stranger.id & 1 and not covered:
                    name = entry.strangers[stranger.site]
                    self._keep(wait.site, stranger.site, f"{name} may start device work, and its code is not here")
                    break

    def _seen_by_host(self, line: Timeline, without: Timeline, wait: Op) -> None:
        """Work that the host can watch through memory: the Timeline does not know every pointer that the host follows, so
        the text up to the next wait is read, too."""
        pending = wait.waits & enqueued_work(line) & ~without.before[wait.id]
        shown = [(k, text) for k in members(pending) if (text := host_visible(line, line.ops[k]))]
        if not shown:
            return
        given = RuleInput(line, self.situation.analysis.program, self.situation.analysis.sources)
        later = next(
            (
                o
                for o in without.ops
                if line.earlier[o.id] >> wait.id & 1 and pending & ~(o.waits | without.before[o.id]) == 0
            ),
            None,
        )
        if later is None or not self._nothing_between(given, wait, line.ops[later.id], pending):
            self._keep(wait.site, line.ops[shown[0][0]].site, f"the host may use {shown[0][1]} behind it")

    def _nothing_between(self, given: RuleInput, wait: Op, later: Op, pending: int) -> bool:
        """Both stand in one round of one function, and the text between them touches no memory of the work and calls no
        function of the program, which may know the memory by another name."""
        line, program = given.timeline, given.program
        if (wait.function, wait.calls, wait.loop, wait.iteration) != (
            later.function,
            later.calls,
            later.loop,
            later.iteration,
        ):
            return False
        body = program.functions[wait.function].body
        between = (wait.site.span[1], later.site.span[0])
        calls = [n for n in walk_within(body, between) if isinstance(n, Call)] if body is not None else []
        if any(program.by_name.get(last_name(callee_name(call))) for call in calls):
            return False
        return region_is_plain(given, wait, later, [line.ops[k] for k in members(pending)])

    def _errors(self, entry: _Entry) -> None:
        """An error that a removed check would have reported is reported by a later one, on every path to the end."""
        program = self.situation.analysis.program
        line = entry.with_waits
        waits = [op for op in line.ops if op.site in self.candidates and may_be_checked(program, op)]
        if not waits:
            return
        silent = {op.site for op in line.ops if _blocks(op) and not is_checked(program, op)}
        checked = self._executed(line.entry, entry.options, silent | set(self.candidates))
        if not _same_ops(line, checked):
            for wait in waits:
                self._keep(wait.site, None, "where its errors would be reported could not be settled")
            return
        work = enqueued_work(line)
        for op in (o for o in line.ops if o.kind is ApiKind.NEUTRAL and o.api == END):
            for wait in reversed(waits):
                unseen = wait.waits & work & ~checked.before[op.id] & ~checked.before[wait.id]
                if line.earlier[op.id] >> wait.id & 1 and unseen:
                    self._keep(
                        wait.site, None, "no later checked call would report an error of the work that it waits for"
                    )
        for wait in waits:
            behind = (o for o in checked.ops if o.waits and o.id > wait.id and line.earlier[o.id] >> wait.id & 1)
            found = next((o for o in behind if wait.waits & work & ~(o.waits | checked.before[wait.id]) == 0), None)
            if found is not None:
                self.surfacing.setdefault(wait.site, found)

    # ------------------------------------------------------------------------------------------------------- what is told

    def _keep(self, wait: Site, needs: Site | None, reason: str) -> None:
        if self.candidates.pop(wait, None) is not None or wait not in self.kept:
            self.kept.setdefault(wait, (needs, reason))

    def _obligation(self, site: Site, api: str, lines: dict[str, LineIndex]) -> Obligation:
        program = self.situation.analysis.program
        paths = sum(op.site == site for line in self.situation.analysis.timelines for op in line.ops)
        times = f"{paths} occurrence{'s' * (paths != 1)}"
        shown = (
            f"the program executed without it: no conflicting access, clock, release or end loses its order ({times})"
        )
        later = self.surfacing.get(site)
        if later is not None:
            where = f"{later.site.path}:{line_of(program, lines, later.site)}"
            shown += f"; errors are then reported by `{later.api}` at {where}"
        return Obligation(f"nothing relies on `{api}` in line {line_of(program, lines, site)}", shown)


def _blocks(op: Op) -> bool:
    return op.kind in HOST_WAITS or (op.kind in (ApiKind.COPY, ApiKind.MEMSET) and bool(op.waits))


def _lost(line: Timeline, without: Timeline) -> list[int]:
    """For each op, the work that is no longer known to be complete when it starts."""
    return [a & ~b for a, b in zip(line.before, without.before, strict=True)]


def _perhaps_empty(line: Timeline, op: Op) -> frozenset[Site]:
    """The loops around an op that are not known to have a round."""
    found = set()
    number = op.loop
    while number is not None:
        loop = line.loops[number]
        if not (loop.trip is not None and at_least(loop.trip, ONE)):
            found.add(loop.site)
        number = loop.parent
    return frozenset(found)


def _same_ops(a: Timeline, b: Timeline) -> bool:
    """Both runs went the same ways: op k is the same in both."""
    return len(a.ops) == len(b.ops) and all(
        (x.kind, x.site, x.calls, x.iteration, x.conditions) == (y.kind, y.site, y.calls, y.iteration, y.conditions)
        and a.earlier[x.id] == b.earlier[x.id]
        for x, y in zip(a.ops, b.ops, strict=True)
    )
