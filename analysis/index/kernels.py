"""Findings about kernels, kept until the kernel, a device function that it reaches, its launches, or what the program
declares has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stitchcuda.analysis.findings.finding import Finding, KernelInput
from stitchcuda.analysis.index.merge import EntryFindings
from stitchcuda.analysis.kernel.launches import KernelLaunch, LaunchesRead, launches_of, launches_read
from stitchcuda.analysis.kernel.relevance import asks_nothing
from stitchcuda.analysis.kernel.trace import kernel_traces
from stitchcuda.analysis.program.ir import Function, Program
from stitchcuda.analysis.rules import KERNEL_RULES


@dataclass(frozen=True, slots=True)
class KernelFindings:
    """What the rules said about a kernel, and what they said it for."""

    findings: EntryFindings
    digest: str
    declared: bytes  # of everything but bodies
    launches: tuple[KernelLaunch, ...] | None  # None: they do not matter
    launches_read: LaunchesRead | None  # what they were read from
    functions: tuple[tuple[str, str], ...]  # device functions that it reaches, with their digests
    lookups: tuple[tuple[str, tuple[str, ...]], ...]  # names of functions, and what they meant

    def still_hold(self, program: Program, kernel: str, declared: bytes) -> bool:
        """Whether looking at the kernel again would find the same."""
        function = program.functions[kernel]
        return (
            bool(self.digest)
            and function.digest == self.digest
            and declared == self.declared
            and all(
                uid in program.functions and program.functions[uid].digest == digest for uid, digest in self.functions
            )
            and all(program.by_name.get(name, ()) == uids for name, uids in self.lookups)
            and (self.launches is None or self._same_launches(program, function))
        )

    def _same_launches(self, program: Program, function: Function) -> bool:
        read = self.launches_read
        if read is not None and read == launches_read(program, function):
            return True
        return launches_of(program, function) == self.launches


def kernel_findings(program: Program, kernel: str, sources: Mapping[str, bytes], declared: bytes) -> KernelFindings:
    """Runs the rules about one kernel."""
    function = program.functions[kernel]
    reached = asks_nothing(program, function)
    if reached is not None:
        nothing = EntryFindings((), frozenset())
        return KernelFindings(nothing, function.digest, declared, None, None, reached.functions, reached.lookups)
    given = KernelInput(kernel, program, sources, guesses=1)
    walked = kernel_traces(program, kernel, sources, given.guesses)
    found: tuple[Finding, ...] = ()
    if walked.fixed:
        found = tuple(_found(given))
    elif not walked.speaks_for_others or any(True for _ in _found(given)):  # what one guess shows has to show in all
        given = KernelInput(kernel, program, sources)
        found = tuple(_found(given))
        walked = kernel_traces(program, kernel, sources)
    functions = {pair for trace in walked.traces for pair in trace.functions}
    lookups = {pair for trace in walked.traces for pair in trace.lookups}
    return KernelFindings(
        EntryFindings(found, frozenset()),
        function.digest,
        declared,
        walked.launches,
        launches_read(program, function),
        tuple(sorted(functions)),
        tuple(sorted(lookups)),
    )


def _found(given: KernelInput) -> Iterator[Finding]:
    return (found for rule in KERNEL_RULES for found in rule.check(given))
