"""Accesses of the blocks of a cluster to one shared array between which a barrier of the cluster is missing."""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, KernelInput, Related, Severity
from stitchcuda.analysis.findings.shapes import agreed
from stitchcuda.analysis.findings.wording import called_from
from stitchcuda.analysis.kernel.clusters import across_blocks
from stitchcuda.analysis.kernel.model import Access, Memory, Mode
from stitchcuda.analysis.kernel.trace import kernel_traces
from stitchcuda.analysis.program.ir import Site

_VERB = {Mode.READ: "reads", Mode.WRITE: "writes", Mode.ATOMIC: "updates", Mode.ASYNC_WRITE: "copies into"}


def cluster_races(given: KernelInput, code: str) -> Iterator[Finding]:
    traces = kernel_traces(given.program, given.kernel, given.sources, given.guesses)
    found: list[dict[Site, Finding]] = [
        {b.site: _finding(given, code, a, b) for a, b in across_blocks(t)} for t in traces.traces if not t.broken
    ]
    yield from agreed(traces, found)


def _finding(given: KernelInput, code: str, first: Access, later: Access) -> Finding:
    kernel = given.program.functions[given.kernel].name
    far = later.buffer.memory is Memory.CLUSTER
    whose = (
        "of another block of the cluster, which that block itself",
        "of its own block, which another block of the cluster",
    )
    message = (
        f"`{kernel}` {_VERB[later.mode]} `{later.buffer.name}` {whose[0 if far else 1]} {_VERB[first.mode]} before, with no "
        "`sync()` of the cluster in between"
    )
    related = (Related(first.site, "the other access"), *called_from(later.calls, later.site))
    return Finding(code, Group.DEVICE, Severity.ERROR, Confidence.LIKELY, later.site, message, related)
