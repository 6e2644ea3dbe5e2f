"""Takes `cudaMalloc` and `cudaFree` out of what is repeated.

## Changes

Memory that a loop allocates and frees again and again gets a better place, in one of two forms:

- allocated and freed in the body of one loop: both calls move out of the loop (`allocation/out_of_loop.py`);
- in a function that is called repeatedly, or where the first form does not fit: the calls become `cudaMallocAsync` and
  `cudaFreeAsync` on the default stream, and the program tells the device's memory pool once to keep what is freed.

One unit a function, and one for the pool.

## What must be proved

All uses of the memory are on the default stream or on streams that it waits for; the pointer lives in one local variable that
nothing else keeps; everything that is read was written before (memory that is used again holds other values); one device,
one host thread, no graph capture. `cudaFree` waits for the device in practice: nothing on the host, on another stream or at the end
of the program may have relied on that. For the first form also: the size is the same in every round, and no way leads out
of a round between the calls.

## What it may change

Allocation calls (where, how often and of what kind), and with `cudaFree` the waits that it hides. Peak memory stays what it was
within a round; the pool keeps it between rounds.

## What the validator must see

Allocations as predicted, equal results when fresh memory is poisoned.

## Refusals

Each with the line that prevents the change. Also: CUDA before 11.2 or HIP in the program's own `#if`s, several devices, memory that
a library, a graph or a non-blocking stream uses. Allocations that are made once, or that live longer than a round, are no target.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from stitchcuda.agent.transforms.allocation import out_of_loop, pool_setup
from stitchcuda.agent.transforms.allocation.lifetimes import (
    Lifetime,
    Unfit,
    grouped,
    hidden_waits,
    lifetime,
    repeated,
    single_device,
    unfit_in,
)
from stitchcuda.agent.transforms.allocation.pointer_uses import PointerUses
from stitchcuda.agent.transforms.editing import line_of
from stitchcuda.agent.transforms.transform import Outcome, Proposal, Refusal, Situation
from stitchcuda.agent.transforms.waiting.observers import Observers
from stitchcuda.agent.transforms.waiting.reliance import enqueued_work, reliances
from stitchcuda.agent.units import Obligation, TextEdit
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.waits import members, quiet
from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.order.timeline import Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import Api, ApiKind, Function, Site, walk
from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.analysis.syntax.text import LineIndex

ID = "hoist-allocation"
DECLARED = Declared((ID,), waits=May.FEWER, allocations=May.ANY)
_OTHER_CUDA = re.compile(
    rb"^[ \t]*#[ \t]*define[ \t]+cuda[A-Z]\w*|\b__HIP\w*__\b|\bhip(Malloc|Free|runtime)\w*|<hip/|CUDART_VERSION\s*<\s*1[01]0[012]0",
    re.MULTILINE,
)


def find(situation: Situation) -> Outcome:
    """The allocations that can be made once, or cheap."""
    search = _Search(situation)
    search.run()
    return Outcome(tuple(search.proposals), tuple(dict.fromkeys(search.refusals)))


@dataclass
class _Search:
    situation: Situation
    proposals: list[Proposal] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    lines: dict[str, LineIndex] = field(default_factory=dict)

    def run(self) -> None:
        analysis = self.situation.analysis
        targets = repeated(analysis.timelines)
        if not targets:
            return
        self.lines = {path: LineIndex.of(text) for path, text in analysis.sources.items()}
        whole = self._unfit_program()
        if whole is not None:
            for site in targets:
                self._refuse(site, whole)
            return
        made = self._fitting(targets)
        made = self._without_hidden_waits(made)
        moved: dict[str, list[out_of_loop.Move]] = {}
        ordered: list[Lifetime] = []
        for each in made:
            move = out_of_loop.move(self._given(analysis.timelines[0]), analysis.timelines, each)
            if isinstance(move, Unfit):
                ordered.append(each)
            else:
                moved.setdefault(each.uid, []).append(move)
        moves = [m for group in moved.values() for m in out_of_loop.fitting(group)]
        ordered += [m.lifetime for group in moved.values() for m in group if m not in moves]
        for uid in {m.lifetime.uid: None for m in moves}:
            self._propose_moves([m for m in moves if m.lifetime.uid == uid])
        if ordered:
            self._propose_pool(ordered)
        self.proposals.sort(key=lambda p: (p.path, p.line))

    # ------------------------------------------------------------------------------------------------- what must hold

    def _given(self, line: Timeline) -> RuleInput:
        return RuleInput(line, self.situation.analysis.program, self.situation.analysis.sources)

    def _unfit_program(self) -> Unfit | None:
        analysis = self.situation.analysis
        for line in analysis.timelines:
            function = analysis.program.functions[line.entry]
            if function.name != "main":
                site = Site(line.entry, function.path, function.name_span)
                return Unfit(site, f"the program is not whole: who calls `{function.name}` is not known")
            found = single_device(line)
            if found is not None:
                return found
            if any(s.kind is StreamKind.PER_THREAD for s in line.streams):
                return Unfit(
                    Site(line.entry, function.path, function.name_span),
                    "each host thread has a default stream of its own",
                )
            for uid in line.functions:
                for node in _api_calls(analysis.program.functions[uid]):
                    if node.name.endswith("MemGetInfo"):
                        site = Site(uid, analysis.program.functions[uid].path, node.span)
                        return Unfit(site, f"`{node.name}` would count what the pool keeps")
        for path, text in analysis.sources.items():
            match = _OTHER_CUDA.search(text)
            if match is not None:
                what = match[0].decode(errors="replace").strip()
                return Unfit(Site("", path, match.span()), f"the program is also built for other runtimes: `{what}`")
        return None

    def _fitting(self, targets: Sequence[Site]) -> list[Lifetime]:
        analysis = self.situation.analysis
        uses = PointerUses(analysis.program)
        bound = any(n.kind is ApiKind.SET_STREAM for f in analysis.program.functions.values() for n in _api_calls(f))
        made = []
        for site in targets:
            found = lifetime(analysis.timelines, self._given(analysis.timelines[0]), site, uses)
            if isinstance(found, Lifetime):
                for line in analysis.timelines:
                    unfit = unfit_in(line, found, library_streams=bound)
                    if unfit is not None:
                        found = unfit
                        break
            if isinstance(found, Unfit):
                self._refuse(site, found)
            else:
                made.append(found)
        return made

    def _without_hidden_waits(self, made: list[Lifetime]) -> list[Lifetime]:
        """Leaves out what somebody may have relied on as a wait: `cudaFree` (W8)."""
        analysis = self.situation.analysis
        observers = Observers(analysis.program)
        for line in analysis.timelines:
            frees = frozenset(s for m in made for s in m.sites[1:])
            if not any(op.site in frees for op in line.ops):
                continue
            observed = observers.sites(line.functions)
            full = analysis.executed(line.entry, Options(observed=frozenset(observed)))
            work = enqueued_work(full)
            by_free = {s: m for m in made for s in m.sites[1:]}
            for reliance in reliances(full, hidden_waits(full, frees, work), observed):
                passed = [
                    op
                    for op in full.ops
                    if op.site in by_free
                    and full.earlier[reliance.op] >> op.id & 1
                    and full.earlier[op.id] & ~full.before[op.id] & reliance.work
                ]
                for op in passed:
                    self._drop(
                        made,
                        by_free[op.site],
                        Unfit(full.ops[reliance.op].site, f"{reliance.reason}, which `cudaFree` may have waited for"),
                    )
            strangers = observers.strangers(line.functions)
            started = [op for op in full.ops if op.kind is ApiKind.NEUTRAL and op.site in strangers]
            for op in full.ops:
                owner = by_free.get(op.site)
                if owner is None:
                    continue
                stranger = next(
                    (s for s in started if full.earlier[op.id] >> s.id & 1 and not _waited(full, s, op)), None
                )
                if stranger is not None:
                    what = f"{strangers[stranger.site]} may start device work, for which `cudaFree` waits"
                    self._drop(made, owner, Unfit(stranger.site, what))
                pending = full.earlier[op.id] & work & ~full.before[op.id]
                loud = next((k for k in members(pending) if not quiet(analysis.program, full, full.ops[k])), None)
                if loud is not None:
                    name = full.ops[loud].kernel or full.ops[loud].api
                    self._drop(
                        made,
                        owner,
                        Unfit(
                            full.ops[loud].site,
                            f"`{name}` may print or assert, which the wait in `cudaFree` brings to light",
                        ),
                    )
        return made

    def _drop(self, made: list[Lifetime], owner: Lifetime, why: Unfit) -> None:
        if owner in made:
            made.remove(owner)
            self._refuse(owner.site(owner.allocation), why)

    def _refuse(self, site: Site, why: Unfit) -> None:
        program = self.situation.analysis.program
        about = (
            ""
            if why.site == site
            else f"the allocation in line {line_of(program, self.lines, site)} of {site.path} stays: "
        )
        self.refusals.append(Refusal(ID, why.site.path, line_of(program, self.lines, why.site), about + why.reason))

    # ------------------------------------------------------------------------------------------------------- proposals

    def _propose_moves(self, moves: Sequence[out_of_loop.Move]) -> None:
        name = moves[0].lifetime.body.function.name
        names = ", ".join(f"`{m.lifetime.pointer}`" for m in moves)
        self._propose(
            f"`{name}` allocates and frees {names} in every round of its loop: once around it is enough",
            out_of_loop.edits_of(moves),
            [m.lifetime for m in moves],
            Obligation(
                "the size is the same in every round, and no way leads out of a round between the calls",
                "the loop's text",
            ),
        )

    def _propose_pool(self, ordered: Sequence[Lifetime]) -> None:
        analysis = self.situation.analysis
        sites = [m.site(m.allocation) for m in ordered]
        if not pool_setup.already_set(self._given(analysis.timelines[0])):
            for line in analysis.timelines:
                if not any(op.site in sites for op in line.ops):
                    continue
                made = pool_setup.setup(self._given(line), sites, ordered[0].body)
                if isinstance(made, Unfit):
                    for site in sites:
                        self._refuse(site, made)
                    return
                if any(p.edits == made.edits for p in self.proposals):
                    continue
                self.proposals.append(
                    Proposal(
                        ID,
                        f"`{made.function}` makes the default memory pool keep what is freed, for all stream-ordered allocations",
                        made.edits[0].path,
                        line_of(analysis.program, self.lines, made.site),
                        made.edits,
                        DECLARED,
                        (Obligation("the device is selected before", "the statements in front of the call"),),
                        tuple(s for m in ordered for s in m.sites),
                        supports=True,
                    )
                )
        for lifetimes in grouped(ordered).values():
            name = lifetimes[0].body.function.name
            self._propose(
                f"`{name}` is run again and again: it takes its memory from the device's pool, in stream order",
                tuple(e for m in lifetimes for e in _stream_ordered(m)),
                lifetimes,
                Obligation(
                    "every use is ordered between allocation and free",
                    "all of it is on the default stream or waits for it",
                ),
            )

    def _propose(self, why: str, edits: Sequence[TextEdit], made: Sequence[Lifetime], own: Obligation) -> None:
        program = self.situation.analysis.program
        first = made[0].site(made[0].allocation)
        self.proposals.append(
            Proposal(
                ID,
                why,
                first.path,
                line_of(program, self.lines, first),
                tuple(sorted(edits, key=lambda e: (e.start, e.end))),
                DECLARED,
                (
                    own,
                    Obligation(
                        "nothing else keeps the pointers",
                        "every mention of them, also in the functions they are handed to",
                    ),
                    Obligation(
                        "all that is read was written since the allocation",
                        "order of accesses; how much a kernel writes is left to poisoning",
                    ),
                    Obligation(
                        "nothing relies on the wait within `cudaFree`",
                        "accesses, clocks and ends of the program behind it",
                    ),
                ),
                tuple(s for m in made for s in m.sites),
            )
        )


def _waited(line: Timeline, stranger: Op, free: Op) -> bool:
    """The host waits for the whole device between the two."""
    return any(
        op.kind is ApiKind.DEVICE_SYNC and line.earlier[op.id] >> stranger.id & 1 and line.earlier[free.id] >> op.id & 1
        for op in line.ops
    )


def _api_calls(function: Function) -> list[Api]:
    """The runtime calls written in a host function."""
    if function.body is None or not function.host_cuda_calls:
        return []
    return [n for n in walk(function.body) if isinstance(n, Api)]


def _stream_ordered(made: Lifetime) -> list[TextEdit]:
    """`cudaMalloc(&p, n)` and `cudaFree(p)` become `cudaMallocAsync(&p, n, 0)` and `cudaFreeAsync(p, 0)`."""
    out = []
    function = made.body.function
    for call in (made.allocation, *made.frees):
        name_end = function.base + call.span[0] + len(call.name)
        text = made.body.text[call.span[0] : call.span[1] - 1].rstrip()
        closing = function.base + call.span[0] + len(text)
        out.append(TextEdit(function.path, name_end, name_end, b"Async"))
        out.append(TextEdit(function.path, closing, closing, b", 0"))
    return out
