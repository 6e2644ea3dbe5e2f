"""Many files and their analysis: what an edit did not touch is not done again.

Three caches, all keyed by content: lowered functions (the frontend's `LoweringCache`), lowered files (by text and
visible macros; `shared.py` keeps them for all programs), and per entry its Timeline with findings (by the digests of
every function it executed or leads to on the device, and by what the program declares). What is done when an analysis is
cancelled is not done again by the next. Nothing here reads a disk.

A long analysis offers what it knows for good on the way (`way.py`, `finality.py`); that of a new program looks at a few
functions before it lowers the rest (`ahead.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from stitchcuda.analysis.findings.finding import Finding, RuleInput
from stitchcuda.analysis.index.ahead import Ahead, Part
from stitchcuda.analysis.index.beyond import Beyond, options_beyond
from stitchcuda.analysis.index.cancel import Cancel
from stitchcuda.analysis.index.comments import coverage
from stitchcuda.analysis.index.finality import Said
from stitchcuda.analysis.index.kernels import KernelFindings, kernel_findings
from stitchcuda.analysis.index.merge import EntryFindings, merge
from stitchcuda.analysis.index.reach import leading_to
from stitchcuda.analysis.index.shared import (
    SHARED,
    LoweredFile,
    Signatures,
    SourceText,
    digest_of,
    is_python,
    lowered_file,
)
from stitchcuda.analysis.index.way import Entry, Seen, State, Way
from stitchcuda.analysis.internal_error import where
from stitchcuda.analysis.order.execute import execute_entry
from stitchcuda.analysis.order.recorder import Cancelled, Options
from stitchcuda.analysis.order.timeline import Timeline
from stitchcuda.analysis.program import cuda, cupy
from stitchcuda.analysis.program.ir import Function, Module, Problem, Program
from stitchcuda.analysis.program.link import link
from stitchcuda.analysis.rules import RULES


@dataclass(frozen=True)
class Analysis:
    """What is known about the files of an index. `complete` is False when it was cancelled on the way, and when it is offered on the
    way: then other findings follow, and there are no Timelines."""

    program: Program
    timelines: tuple[Timeline, ...]
    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...]
    sources: Mapping[str, bytes] = field(default_factory=dict)
    complete: bool = True
    _executed: dict[tuple[str, Options], Timeline] = field(default_factory=dict, init=False, repr=False, compare=False)

    def executed(self, entry: str, options: Options) -> Timeline:
        """The Timeline of an entry (a function's uid) under other options, kept for the next who asks."""
        known = self._executed.get((entry, options))
        if known is None:
            known = execute_entry(self.program, entry, options=options, sources=self.sources)
            self._executed[entry, options] = known
        return known


Offer: TypeAlias = Callable[[Callable[[], Analysis | None]], bool]
"""Called between the steps of an analysis with what makes one of all that is known for good by then (None when that cannot be told yet).
Returns whether it was made use of."""


@dataclass(slots=True)
class _File:
    source: SourceText
    lowered_for: bytes = b""  # key of what `lowered` was made from
    lowered: LoweredFile | None = None  # None: it cannot be lowered
    signatures: Signatures = field(default_factory=dict)  # of what it was lowered to last


class Index:
    """The files of one program. Not thread-safe; one `analyse` at a time.

    `strict` raises internal errors instead of turning them into problems: for tests. Without `findings` it stops at
    the Timelines."""

    def __init__(self, options: Options | None = None, *, strict: bool = False, findings: bool = True) -> None:
        self._options = options or Options()
        self._strict = strict
        self._findings = findings
        self._files: dict[str, _File] = {}
        self._lowering = cuda.LoweringCache()
        self._entries: dict[str, Entry] = {}
        self._kernels: dict[str, KernelFindings] = {}
        self._declares = b""  # what the program declared when the last analysis was complete
        # Of the last program that declared something else. A brace that is missing for a moment takes functions away.
        self._earlier_entries: dict[str, Entry] = {}
        self._earlier_kernels: dict[str, KernelFindings] = {}
        self._normal: dict[str, str] = {}
        self._by_name: dict[str, list[str]] = {}
        self._said = Said()
        self._begun: dict[str, cuda.ModuleLowering] = {}  # by path: what this analysis goes on with

    def put(self, path: str, text: bytes) -> None:
        """A file is new or has a new text."""
        source = SHARED.source(path, text)
        known = self._files.get(path)
        if known is None:
            self._files[path] = _File(source)
        elif known.source.digest != source.digest:
            known.source = source

    def drop(self, path: str) -> None:
        """A file is gone."""
        if self._files.pop(path, None) is not None:
            self._lowering.forget(path)
            SHARED.forget(path)

    def analyse(self, cancel: Cancel | None = None, offer: Offer | None = None, first: str = "") -> Analysis:
        """Brings everything up to date. Never raises on broken code: what could not be used is in `problems`. With an `offer` it begins
        with the file `first` and with what changed."""
        try:
            return self._analyse(cancel, offer, first)
        finally:
            self._begun.clear()

    def _analyse(self, cancel: Cancel | None, offer: Offer | None, first: str) -> Analysis:
        problems: list[Problem] = []
        modules = []
        self._normal = {_normal(path): path for path in self._files}
        self._by_name = {}
        for path in self._files:
            self._by_name.setdefault(os.path.basename(path), []).append(path)
        sources = {path: file.source.text for path, file in self._files.items()}
        if offer is not None:
            self._lowering.look_at(first)
        ahead = Seen()
        is_new = not (self._entries or self._kernels or self._said.findings)
        if offer is not None and self._findings and is_new:
            self._look_ahead(ahead, cancel, offer, first, sources)
        for path in self._files:
            if cancel is not None and cancel():
                return self._cancelled()
            module = self._module(path, problems)
            if module is not None:
                modules.append(module)
        program = link(modules)
        problems += program.problems
        state = State(self._declared(program), {uid: f.digest for uid, f in program.functions.items()})
        holding = _Holding(state, program, {path: file.source for path, file in self._files.items()})
        way = Way(program, sources, self._said)
        entries, kernels = way.entries, way.kernels
        earlier = dict(self._entries), dict(self._kernels)
        way.take(ahead, state)
        self._entries.update(entries)
        self._kernels.update(kernels)

        def entry_of(uid: str, options: Options) -> bool:
            """False when it was cancelled: then what an entry gave may not be all."""
            if cancel is not None and cancel():
                return False
            known = (self._entries.get(uid), self._earlier_entries.get(uid))
            entry = next((e for e in known if e is not None and e.options == options and holding.still(e)), None)
            if entry is None:
                entry = self._entry(uid, program, sources, problems, cancel, options, state)
                if cancel is not None and cancel():
                    return False
            if entry is not None:
                entry.state = state
                self._entries[uid] = entries[uid] = entry
            way.pending.discard(uid)
            if offer is not None:
                offer(partial(_known, way))
            return True

        for uid in program.entries if offer is None else way.in_order(first):
            if not entry_of(uid, self._options):
                return self._cancelled()
        way.entries = entries = {uid: entries[uid] for uid in program.entries if uid in entries}
        beyond = Beyond(program, (e.timeline for e in entries.values()))
        for uid in beyond:
            if not entry_of(uid, options_beyond(self._options)):
                return self._cancelled()
            if uid in entries:
                beyond.ran(entries[uid].timeline)
        way.executed = True
        for uid in way.kernels_in_order(first) if self._findings else ():
            if cancel is not None and cancel():
                return self._cancelled()
            looked = (self._kernels.get(uid), self._earlier_kernels.get(uid))
            kernel = next((k for k in looked if k is not None and k.still_hold(program, uid, state.declared)), None)
            if kernel is None:
                kernel = self._kernel(uid, program, sources, state.declared, problems)
            if kernel is not None:
                self._kernels[uid] = kernels[uid] = kernel
            way.pending_kernels.discard(uid)
            if offer is not None:
                offer(partial(_known, way))
        kernels = {uid: kernels[uid] for uid in program.functions if uid in kernels}
        if self._declares != state.declared:
            self._declares = state.declared
            self._earlier_entries, self._earlier_kernels = earlier
        self._entries, self._kernels = entries, kernels
        timelines = tuple(e.timeline for e in entries.values())
        found = [*(e.findings for e in entries.values()), *(k.findings for k in kernels.values())]
        findings = merge(found, program, sources, coverage(timelines, kernels, program, problems))
        self._said = Said(findings, state.digests, sources)
        return Analysis(program, timelines, findings, tuple(dict.fromkeys(problems)), sources)

    def _look_ahead(
        self, ahead: Seen, cancel: Cancel | None, offer: Offer, first: str, sources: Mapping[str, bytes]
    ) -> None:
        """Looks at the first functions of a new program until the offer is made use of."""
        modules: dict[str, Module] = {}
        if any(is_python(path) for path in self._files):
            return
        try:
            for path, file in self._files.items():
                if cancel is not None and cancel():
                    return
                key, seen = self._key(path)
                lowered = SHARED.lowered(path, file.source, key)
                if lowered is not None:
                    modules[path] = lowered.module
                else:
                    self._begun[path] = self._lowering_of(path, file, seen)
            files = {path: file.source for path, file in self._files.items()}
            for part in Ahead(files, self._begun, modules).parts(first):
                if self._part(part, ahead, cancel, offer, sources):
                    return
        except Exception:  # it is met again, and told, on the way through all files
            if self._strict:
                raise
            self._begun.clear()

    def _part(self, part: Part, ahead: Seen, cancel: Cancel | None, offer: Offer, sources: Mapping[str, bytes]) -> bool:
        """True when this is enough."""
        program = part.program
        way = Way(program, sources, Said(), ahead.entries, ahead.kernels, part.open)
        way.pending = set(part.entries).difference(ahead.entries)
        way.pending_kernels = {u for u in way.pending_kernels if u not in part.open and u not in ahead.kernels}
        for uid in [u for u in part.entries if u in way.pending]:
            entry = self._entry(uid, program, sources, [], cancel, self._options, State(b"", {}))
            if cancel is not None and cancel():
                return True
            if entry is not None and not entry.beyond:
                way.entries[uid] = entry
                way.pending.discard(uid)
            if offer(partial(_known, way)):
                return True
        for uid in [u for u in program.functions if u in way.pending_kernels]:
            kernel = self._kernel(uid, program, sources, b"", [])
            if cancel is not None and cancel():
                return True
            if kernel is not None:
                way.kernels[uid] = kernel
                way.pending_kernels.discard(uid)
        return offer(partial(_known, way))

    # -------------------------------------------------------------------------------------------------------- one file

    def _module(self, path: str, problems: list[Problem]) -> Module | None:
        file = self._files[path]
        source = file.source
        key, seen = self._key(path)
        if file.lowered_for != key:
            file.lowered_for = key
            file.lowered = SHARED.lowered(path, source, key)
            if file.lowered is None:
                file.lowered = self._lower(path, file, seen, problems)
            if file.lowered is not None:
                file.signatures = file.lowered.signatures
        return file.lowered.module if file.lowered is not None else None

    def _key(self, path: str) -> tuple[bytes, list[SourceText]]:
        """What a file is lowered from, and the files whose macros it sees."""
        seen = [self._files[each].source for each in self._seen_from(path)]
        return digest_of(self._files[path].source.digest, *(each.defines for each in seen if each.defines)), seen

    def _lower(self, path: str, file: _File, seen: Sequence[SourceText], problems: list[Problem]) -> LoweredFile | None:
        source = file.source
        try:
            if is_python(path):
                module = cupy.lower_module(path, source.text)
            else:
                module = (self._begun.pop(path, None) or self._lowering_of(path, file, seen)).whole()
        except Exception as error:
            if self._strict:
                raise
            problems.append(Problem(path, 0, f"internal error: {where(error)}", "the file is left out", internal=True))
            return None
        made = lowered_file(file.lowered_for, module, file.signatures)
        SHARED.keep(path, source, made)
        return made

    def _lowering_of(self, path: str, file: _File, seen: Sequence[SourceText]) -> cuda.ModuleLowering:
        macros: dict[str, cuda.MacroDef] = {}
        for each in seen:
            macros.update(each.macros)
        source = file.source
        return cuda.ModuleLowering(path, source.text, macros=macros, own=source.macros, cache=self._lowering)

    def _seen_from(self, path: str) -> list[str]:
        """The files that a file includes, directly or not, and itself, the nearest last: its definition of a macro wins."""
        waiting, seen = [path], {path}
        order: list[str] = []
        while waiting:
            current = waiting.pop()
            order.append(current)
            for name in self._files[current].source.includes:
                target = self._included(current, name)
                if target is not None and target not in seen:
                    seen.add(target)
                    waiting.append(target)
        order.reverse()
        return order

    def _included(self, path: str, name: str) -> str | None:
        beside = _normal(os.path.join(os.path.dirname(path), name))
        if beside in self._normal:
            return self._normal[beside]
        last = os.path.basename(beside)
        suffix = "/" + _normal(name).lstrip("./")
        matches = [p for p in self._by_name.get(last, ()) if f"/{_normal(p)}".endswith(suffix)]
        return matches[0] if len(matches) == 1 else None

    def _declared(self, program: Program) -> bytes:
        """A digest of everything but function bodies: which functions there are, records, globals, constants, aliases."""
        files = (self._files[path].lowered for path in sorted(program.modules))
        return digest_of(*(file.declared for file in files if file is not None))

    # ------------------------------------------------------------------------------------------------------- one entry

    def _entry(
        self,
        uid: str,
        program: Program,
        sources: Mapping[str, bytes],
        problems: list[Problem],
        cancel: Cancel | None,
        options: Options,
        state: State,
    ) -> Entry | None:
        try:
            timeline = execute_entry(program, uid, options=options, sources=sources, cancelled=cancel)
            given = RuleInput(timeline, program, sources)
            found = tuple(f for rule in RULES for f in rule.check(given)) if self._findings else ()
            beyond = any(rule.asks_beyond is not None and rule.asks_beyond(timeline) for rule in RULES)
        except Cancelled:
            return None
        except Exception as error:
            if self._strict:
                raise
            problems.append(_internal(program.functions[uid], sources, error, "what starts there is left out"))
            return None
        sites = frozenset(op.site for op in timeline.ops)
        return Entry(timeline, EntryFindings(found, sites), options, state, beyond)

    def _kernel(
        self, uid: str, program: Program, sources: Mapping[str, bytes], declared: bytes, problems: list[Problem]
    ) -> KernelFindings | None:
        try:
            return kernel_findings(program, uid, sources, declared)
        except Exception as error:
            if self._strict:
                raise
            problems.append(_internal(program.functions[uid], sources, error, "the kernel is left out"))
            return None

    def _cancelled(self) -> Analysis:
        return Analysis(Program({}, {}), (), (), (), {}, complete=False)


@dataclass(slots=True)
class _Holding:
    """Whether what an entry gave before still holds. Kernels' effects are read without executing them: a device function
    counts when the entry leads to it by name."""

    now: State
    program: Program
    files: Mapping[str, SourceText]
    _touched: dict[int, tuple[State, frozenset[str] | None]] = field(default_factory=dict)

    def still(self, entry: Entry) -> bool:
        then, executed = entry.state, entry.timeline.functions
        if then.declared != self.now.declared or entry.beyond and then.digests != self.now.digests:
            return False
        before, after = then.digests, self.now.digests
        if not all(after.get(uid) and after.get(uid) == before.get(uid) for uid in executed):
            return False
        touched = self._touched_since(then)
        return touched is not None and touched.isdisjoint(executed)

    def _touched_since(self, then: State) -> frozenset[str] | None:
        known = self._touched.get(id(then))
        if known is None:
            functions, before = self.program.functions, then.digests
            device = [f for uid, f in functions.items() if f.space != "host" and f.digest != before.get(uid)]
            touched = leading_to(device, self.program, self.files) if device else frozenset()
            known = self._touched[id(then)] = (then, touched)
        return known[1]


def _known(way: Way) -> Analysis | None:
    """What is known for good on the way."""
    findings = way.known()
    return None if findings is None else Analysis(way.program, (), findings, (), way.sources, complete=False)


def _internal(function: Function, sources: Mapping[str, bytes], error: Exception, consequence: str) -> Problem:
    line = sources[function.path].count(b"\n", 0, function.base) + 1 if function.path in sources else 0
    what = f"internal error in `{function.qualified}`: {where(error)}"
    return Problem(function.path, line, what, consequence, internal=True)


def _normal(path: str) -> str:
    return os.path.normpath(path).replace(os.sep, "/")
