"""What a change declares it may alter, and what a proof says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class May(StrEnum):
    """How far a change may alter a conserved quantity."""

    SAME = "same"
    FEWER = "fewer"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Declared:
    """What a change says it may alter; everything else must stay as it is. Kernels and their order of conflicting
    accesses always stay. `copies` counts host-device copies and their bytes; `allocations` covers allocation and free calls,
    where they stand and of what kind (stream-ordered or not). `device`: same, or any: kernels and what they call may be
    written otherwise, and launches that stand together may be composed of other launches."""

    transforms: tuple[str, ...] = ()
    waits: May = May.SAME
    copies: May = May.SAME
    allocations: May = May.SAME
    launches: May = May.SAME
    device: May = May.SAME

    def __or__(self, other: Declared) -> Declared:
        """What both together may alter."""
        order = (May.SAME, May.FEWER, May.ANY)

        def wider(a: May, b: May) -> May:
            return max(a, b, key=order.index)

        return Declared(
            tuple(dict.fromkeys(self.transforms + other.transforms)),
            wider(self.waits, other.waits),
            wider(self.copies, other.copies),
            wider(self.allocations, other.allocations),
            wider(self.launches, other.launches),
            wider(self.device, other.device),
        )


# A change made by hand: it may wait and allocate otherwise, but neither compute nor move anything else.
BY_HAND = Declared(("by hand",), waits=May.ANY, allocations=May.ANY)


class ProofState(StrEnum):
    PROVED = "proved"
    KEPT = "kept"  # device code changed: the order is kept, and what the kernels compute is not known here
    FAILED = "failed"
    UNTESTED = "untested"  # the analysis met something unknown that matters to this pair


@dataclass(frozen=True, slots=True)
class ProofFinding:
    """Why a proof failed, or what was unknown. `path` and `line` (1-based) are of the *changed* version unless `original`."""

    what: str
    path: str = ""
    line: int = 0
    original: bool = False


@dataclass(frozen=True, slots=True)
class Quantity:
    """A conserved quantity in both versions, as text (symbolic when it is not a number), and whether it stayed within what was
    declared."""

    name: str
    before: str
    after: str
    allowed: bool


@dataclass(frozen=True)
class Proof:
    """`pairs` counts the ordered pairs of conflicting accesses that were compared. `findings` of one that is kept are told and
    decide nothing."""

    state: ProofState
    reason: str = ""
    findings: tuple[ProofFinding, ...] = ()
    quantities: tuple[Quantity, ...] = ()
    pairs: int = 0
    declared: Declared = Declared()
    evidence: Mapping[str, object] = field(default_factory=dict)
