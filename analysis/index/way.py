"""How far an analysis is: what entries and kernels gave, what is left to be looked at, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stitchcuda.analysis.findings.finding import Finding
from stitchcuda.analysis.index.finality import Said, for_good, leads_to, loose, unreached
from stitchcuda.analysis.index.kernels import KernelFindings
from stitchcuda.analysis.index.merge import EntryFindings
from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.order.timeline import Timeline
from stitchcuda.analysis.program.ir import Program


@dataclass(frozen=True, slots=True)
class State:
    """What a result was computed for: everything but function bodies, and the digests of all functions."""

    declared: bytes
    digests: dict[str, str]


@dataclass(slots=True)
class Entry:
    """What an entry gave."""

    timeline: Timeline
    findings: EntryFindings
    options: Options
    state: State  # the latest for which they are known to hold
    beyond: bool  # whether they depend on functions that it did not come to


@dataclass(slots=True)
class Seen:
    """What was looked at before the rest of the program was lowered."""

    entries: dict[str, Entry] = field(default_factory=dict)
    kernels: dict[str, KernelFindings] = field(default_factory=dict)


class Way:
    """How far an analysis is: what was looked at, and what is `pending`."""

    def __init__(
        self,
        program: Program,
        sources: Mapping[str, bytes],
        said: Said,
        entries: dict[str, Entry] | None = None,
        kernels: dict[str, KernelFindings] | None = None,
        outside: frozenset[str] | None = None,
    ) -> None:
        """`outside`: the uids of functions that may be come to from what is not in the program."""
        self.program, self.sources, self.said = program, sources, said
        self.entries = entries if entries is not None else {}
        self.kernels = kernels if kernels is not None else {}
        self.pending = set(program.entries)
        functions = program.functions.items()
        self.pending_kernels = {uid for uid, f in functions if f.space == "global" and f.body is not None}
        self.executed = False  # all entries, and what they did not come to
        self._outside = outside

    def take(self, ahead: Seen, state: State) -> None:
        """What was found ahead of the rest holds for all of it."""
        for uid, entry in ahead.entries.items():
            entry.state = state
            self.entries[uid] = entry
        for uid, kernel in ahead.kernels.items():
            self.kernels[uid] = replace(kernel, declared=state.declared)
        self.pending.difference_update(self.entries)
        self.pending_kernels.difference_update(self.kernels)

    def known(self) -> tuple[Finding, ...] | None:
        """What is known for good; None when that cannot be told yet."""
        program = self.program
        if self._outside is None:
            self._outside = frozenset(loose(program, self.sources))
        host_open: frozenset[str] = frozenset()
        if not self.executed:
            left = unreached(program, (e.timeline for e in self.entries.values()))
            host_open = leads_to(program, self._outside | self.pending | left)
        device_open = leads_to(program, self._outside | self.pending_kernels) if self.pending_kernels else frozenset()
        found = [*(e.findings for e in self.entries.values()), *(k.findings for k in self.kernels.values())]
        return for_good(found, program, self.sources, host_open, device_open, self.said)

    def in_order(self, first: str) -> list[str]:
        """The entries: those that lead to what changed, then those of the file `first`, then the others."""
        return self._sorted(self.program.entries, first)

    def kernels_in_order(self, first: str) -> list[str]:
        functions = self.program.functions.items()
        return self._sorted([u for u, f in functions if f.space == "global" and f.body is not None], first)

    def _sorted(self, uids: Sequence[str], first: str) -> list[str]:
        if not first:
            return list(uids)
        functions, before = self.program.functions, self.said.digests
        waiting = [uid for uid, f in functions.items() if f.digest != before.get(uid)] if before else []
        changed = set(waiting)
        while waiting:
            callers = self.program.callers.get(waiting.pop(), frozenset()) - changed
            changed |= callers
            waiting += callers
        return sorted(uids, key=lambda uid: (uid not in changed, functions[uid].path != first))
