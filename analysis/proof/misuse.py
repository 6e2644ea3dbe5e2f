"""What a change makes a program do that CUDA does not accept, or that uses what is gone: a handle or memory that was
released before (A2, A4, W6), host memory that ends under running work (H1, C7), a call that a capture forbids (G2 to G4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.waits import members
from stitchcuda.analysis.order.timeline import Timeline
from stitchcuda.analysis.program.ir import Site
from stitchcuda.analysis.proof.correspond import Correspondence, line_of
from stitchcuda.analysis.proof.matching import Pairing
from stitchcuda.analysis.proof.model import ProofFinding


def misuse(both: Correspondence, made: Pairing) -> Iterator[ProofFinding]:
    """Findings for what the changed version does more often than the original."""
    had = Counter(key for key, _, _ in _wrong(made.before))
    for key, site, what in _wrong(made.after):
        if had[key]:
            had[key] -= 1
            continue
        at = both.after.program.locate(site)
        line = line_of(both.after, at.path, at.start) if at.path in both.after.sources else 0
        yield ProofFinding(what, at.path, line)


def _wrong(line: Timeline) -> Iterator[tuple[tuple[object, ...], Site, str]]:
    """Each with what tells it from others in both versions, where it happens, and what it is."""
    for stale in line.stale:
        what = f"{stale.user} uses `{stale.name}` here, which was released before"
        yield ("stale", stale.kind, stale.name, stale.how, stale.released.how), stale.site, what
    for ending in line.endings:
        name = line.buffers[ending.buffer].name
        for number in members(ending.users):
            op = line.ops[number]
            if not op.asynchronous:
                continue  # it is done with the host's memory when it returns (C1, C3)
            what = f"`{name}` ends here while {wording.operation(op)} may still use it"
            yield ("ending", name, ending.released.how, op.kind, op.api, op.kernel), ending.released.site, what
    for fault in line.faults:
        yield ("fault", fault.kind, fault.api), fault.site, f"CUDA does not accept `{fault.api}` here"
