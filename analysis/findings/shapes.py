"""Findings about one kernel that was walked for several shapes of its block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stitchcuda.analysis.findings.finding import Finding
from stitchcuda.analysis.kernel.trace import KernelTraces
from stitchcuda.analysis.program.ir import Site


def agreed(traces: KernelTraces, found: Sequence[Mapping[Site, Finding]]) -> Iterator[Finding]:
    """One finding a place, from what was found in each trace: any of them when launches fix the shapes, else only what all
    the guessed shapes have."""
    reported: set[Site] = set()
    for position, findings in enumerate(found):
        for site, finding in findings.items():
            everywhere = all(site in other for other in found)
            if site not in reported and (traces.fixed or everywhere and position == 0):
                reported.add(site)
                yield finding
