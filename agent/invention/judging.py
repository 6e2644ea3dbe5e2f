"""What a verdict says of a version that a model wrote: which gate speaks first, and whether it is faster than the best so far.

A verdict compares with the original. Two versions are compared by their speedups: when the 95 % intervals lie apart, by more than
the least effect that a verdict claims, the faster one is faster; else the new version is measured against the best one itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from stitchcuda.agent.invention.machine import Shown
from stitchcuda.agent.outcome import Candidate, lacking
from stitchcuda.gpu_validate.statistics import MINIMUM_EFFECT
from stitchcuda.gpu_validate.verdict import REQUIRED, GateResult, GateState, Interval, Verdict, VerdictState

Measure = Callable[[Candidate, Candidate], Verdict | None]  # the first with the second as its original; None: it cannot

_GOOD = (GateState.PASSED, GateState.PROVED)
_GATE = {"G0": Shown.ORDER, "G1": Shown.ORDER, "G2": Shown.COMPILE, "G3": Shown.RESULTS, "G4": Shown.ORDER}
_TIME_LIMITS = ("seconds", "stuck")


def shown_by(verdict: Verdict) -> Shown:
    """What speaks first against a version; BETTER when it was accepted."""
    if verdict.state is VerdictState.ACCEPTED:
        return Shown.BETTER
    failed = next((g for g in verdict.gates if g.state is GateState.FAILED), None)
    if failed is not None:
        if failed.gate == "G3" and failed.evidence.get("stopped") in _TIME_LIMITS:
            return Shown.HANG
        return _GATE.get(failed.gate, Shown.FLAT)
    if any(g.state is GateState.INCONCLUSIVE for g in verdict.gates if g.gate in REQUIRED):
        return Shown.FLAT
    order = verdict.gate("G1")
    if order is not None and order.state not in _GOOD and not any(g.gate == "G0" for g in lacking(verdict)):
        return Shown.ORDER  # the analysis cannot follow the change: the model can write it otherwise
    return Shown.UNCHECKED


def equal_results(verdict: Verdict) -> bool:
    """Whether all but the gain was shown: the version may serve as a step to a faster one."""
    states = {g.gate: g.state for g in verdict.gates}
    return all(states.get(name) in _GOOD for name in ("G0", "G1", "G2", "G3", "G4"))


def at_home(verdict: Verdict, folder: Path) -> Verdict:
    """The verdict with paths relative to the program's folder: where it lies on this machine is nobody's business."""
    places = dict.fromkeys((folder.as_posix(), folder.absolute().as_posix()))
    prefix = re.compile(rf"(?<![\w./-])(?:{'|'.join(re.escape(p.rstrip('/')) for p in places)})/")

    def home(text: str) -> str:
        return prefix.sub("", text).replace(f"{Path.home().as_posix()}/", "~/")

    def gate(result: GateResult) -> GateResult:
        found = (replace(f, what=home(f.what), path=home(f.path)) for f in result.findings)
        return replace(result, reason=home(result.reason), findings=tuple(found))

    first = verdict.primary
    if first is not None:
        first = replace(first, issue=home(first.issue), path=home(first.path))
    return replace(verdict, gates=tuple(map(gate, verdict.gates)), primary=first)


@dataclass(frozen=True, slots=True)
class Compared:
    """Whether a version is faster than the best so far, and how that is known."""

    better: bool
    sentence: str


def compared(new: Candidate, best: Candidate | None, measure: Measure) -> Compared:
    """`new` was accepted: it is faster than the original. `best` is None when that is the best so far. Raises Cancelled."""
    if best is None:
        return Compared(True, _told("than the original", new))
    ours, theirs = new.speedup, best.speedup
    if ours is None or theirs is None or ours[0] != theirs[0]:
        return _against(new, best, measure, "the two were not measured by the same figure")
    mine, other = ours[1], theirs[1]
    if mine.low > other.high * MINIMUM_EFFECT:
        return Compared(
            True, f"faster than the best so far: {_range(mine)} and {_range(other)} times as fast as the original"
        )
    if mine.middle <= other.middle:
        return Compared(
            False, f"no faster than the best so far: {_range(mine)} and {_range(other)} times as fast as the original"
        )
    return _against(
        new, best, measure, f"{_range(mine)} and {_range(other)} times as fast as the original lie too near"
    )


def _against(new: Candidate, best: Candidate, measure: Measure, why: str) -> Compared:
    verdict = measure(new, best)
    if verdict is None:
        return Compared(False, f"{why}, and it could not be measured against the best so far")
    beside = Candidate(new.units, new.version, verdict)
    if verdict.state is VerdictState.ACCEPTED:
        return Compared(True, f"{why}; {_told('than the best so far, measured beside it', beside)}")
    gain = f" ({beside.speedup[0]} {_range(beside.speedup[1])})" if beside.speedup else ""
    return Compared(False, f"{why}; measured beside the best so far it brings no gain{gain}")


def _told(than: str, new: Candidate) -> str:
    if new.speedup is None:
        return f"accepted, without a figure of its speed ({than})"
    name, interval = new.speedup
    return f"faster {than}: {name} {_range(interval)}"


def _range(interval: Interval) -> str:
    return f"{interval.middle:.3g} ({interval.low:.3g} to {interval.high:.3g})"
