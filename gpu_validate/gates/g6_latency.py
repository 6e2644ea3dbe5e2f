"""G6: is the version faster by a real margin?

Runs of both versions are interleaved (`statistics.py`), each with the tracer in timing mode. One figure governs: latency per
invocation when the contract bounds it, else the CUDA span. The others must not get worse: a faster kernel in a slower
program is no gain. The results of timed runs are compared as well, so that a program cannot behave for the checked runs only.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.figures import (
    CALL_SECONDS,
    FIGURES,
    JUDGED,
    Figures,
    chosen_statistic,
    figures_of,
    governing,
    tracing_gain,
)
from stitchcuda.gpu_validate.gates.g3_equivalence import Observed, lacks_memory
from stitchcuda.gpu_validate.invocations import Starts
from stitchcuda.gpu_validate.machine_state import MachineState
from stitchcuda.gpu_validate.observe.exchanges import Exchange
from stitchcuda.gpu_validate.observe.shown import against
from stitchcuda.gpu_validate.runs import Room
from stitchcuda.gpu_validate.statistics import LOOKS, MINIMUM_EFFECT, Block, Claim, Comparison, compare, orders
from stitchcuda.gpu_validate.trace.session import TraceRequest
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState, Interval

# With the device operations: the CUDA span ends with the last of them, whether the program waits for it or not, so that taking a wait
# away never makes the span shorter by itself.
TIMED = TraceRequest("timing", operations=True)
_BUSY_SECONDS = 5.0  # waited once when another process uses the GPU


@dataclass(frozen=True)
class Latency:
    """The gate's result and the figures behind it: medians in seconds, the candidate's invocations of all timed runs."""

    result: GateResult
    speedup: Mapping[str, Interval] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    invocations: tuple[float, ...] = ()
    spans: tuple[float, ...] = ()


@dataclass(frozen=True)
class Side:
    """One version as the gate runs it: where, and where its invocations start."""

    room: Room
    starts: Starts


@dataclass(frozen=True)
class Budget:
    """`blocks` of two runs of each version at most, `seconds` in all."""

    blocks: int = LOOKS[-1]
    seconds: float = 300.0


class _Unusable(Exception):
    """A run that says nothing; the text is the gate's reason, `failed` whether it is the version's fault."""

    def __init__(self, reason: str, failed: bool = False) -> None:
        super().__init__(reason)
        self.failed = failed


def latency(
    baseline: Side,
    candidate: Side,
    observed: Observed,
    declared: Declared,
    contract: Contract,
    budget: Budget,
    machine: Callable[[], MachineState],
    told: Callable[[str], None] = lambda _: None,
    exchanges: Sequence[Exchange] = (),
) -> Latency:
    """Measures until the answer is clear or the budget is spent. Raises Cancelled."""
    state = _free_machine(machine)
    evidence: dict[str, Any] = {"machine_before": state.to_json()}
    if state.others_busy:
        reason = f"another process uses the GPU ({state.others_busy}): times would say nothing about the version"
        return Latency(GateResult("G6", GateState.INCONCLUSIVE, reason, evidence))
    work = _Measurement(baseline, candidate, observed, declared, contract, exchanges)
    begun = time.monotonic()
    try:
        for side in "AB":  # warm-up: file caches, the driver's caches, clocks
            work.run(side)
        one_run = (time.monotonic() - begun) / 2
        for number, order in enumerate(orders(budget.blocks, secrets.randbits(32)), 1):
            told(f"timing, round {number}")
            work.block(order)
            left = budget.seconds - (time.monotonic() - begun)
            last = number == budget.blocks or left < 4 * one_run
            if number in LOOKS or last:
                decision = work.decide(last)
                if decision is not None:
                    break
    except _Unusable as error:
        state_ = GateState.FAILED if error.failed else GateState.INCONCLUSIVE
        found = (GateFinding(str(error)),) if error.failed else ()
        return Latency(GateResult("G6", state_, str(error), evidence, found))
    after = machine()
    return work.result({**evidence, "machine_after": after.to_json()})


def _free_machine(machine: Callable[[], MachineState]) -> MachineState:
    state = machine()
    if state.others_busy:
        time.sleep(_BUSY_SECONDS)
        state = machine()
    return state


class _Measurement:
    """The runs so far."""

    def __init__(
        self,
        baseline: Side,
        candidate: Side,
        observed: Observed,
        declared: Declared,
        contract: Contract,
        exchanges: Sequence[Exchange] = (),
    ) -> None:
        self._sides = {"A": baseline, "B": candidate}
        self._observed, self._declared, self._exchanges = observed, declared, exchanges
        self._statistic = chosen_statistic(contract)
        self._contract = contract
        self._blocks: list[dict[str, list[Figures]]] = []
        self.decision: tuple[GateState, str] = (GateState.INCONCLUSIVE, "too few runs were possible in the time given")
        self._compared: dict[str, Comparison] = {}

    def run(self, side: str) -> Figures:
        """One timed run, whose results must be right. Raises _Unusable."""
        shown = self._sides[side].room.run_with_memory(TIMED, self._observed.case)
        whose = "the version" if side == "B" else "the original"
        if lacks_memory(self._observed.expected, shown):
            raise _Unusable(f"the GPU had no memory left for {whose}, twice: another process may hold it")
        declared, exchanges = (self._declared, self._exchanges) if side == "B" else (Declared(), ())
        result = against(self._observed.expected, shown, declared, timed=True, exchanges=exchanges)
        if result.failures:
            raise _Unusable(f"a timed run of {whose} differs: {result.failures[0].what}", failed=side == "B")
        if result.unknown:
            raise _Unusable(f"a timed run of {whose} cannot be compared: {result.unknown[0]}")
        if shown.trace is None or shown.trace.dropped:
            raise _Unusable(f"the tracer brought nothing complete back from a timed run of {whose}")
        return figures_of(shown, self._sides[side].starts, self._statistic)

    def block(self, order: str) -> None:
        taken: dict[str, list[Figures]] = {"A": [], "B": []}
        for side in order:
            taken[side].append(self.run(side))
        self._blocks.append(taken)

    def decide(self, last: bool) -> tuple[GateState, str] | None:
        """Looks at the runs so far; None: more runs could tell more."""
        self._compared = {name: compare(blocks) for name in self._available() if (blocks := self._figure(name))}
        name = governing(self._contract, list(self._compared))
        if name is None:
            missing = self._missing()
            reason = missing.get("cuda_span") or missing.get("latency") or "no figure could be measured"
            self.decision = (GateState.INCONCLUSIVE, reason)
            return self.decision
        state, reason = judge(self._compared, name)
        self.decision = (state, reason)
        done = state is not GateState.INCONCLUSIVE or (
            self._compared[name].no_gain and (self._compared[name].narrow or last)
        )
        return self.decision if done or last else None

    def result(self, evidence: Mapping[str, Any]) -> Latency:
        state, reason = self.decision
        before, after = self._side("A"), self._side("B")
        measured = {
            name: {
                "baseline": median([f.seconds[name] for f in before]),
                "candidate": median([f.seconds[name] for f in after]),
                "runs": len(after),
            }
            for name in self._available()
        }
        governs = governing(self._contract, list(self._compared))
        gain = tracing_gain(before, after) if before and after else 0.0
        evidence = {
            **evidence,
            "governing": governs,
            "runs": len(after),
            "statistic": self._statistic,
            "minimum_effect": MINIMUM_EFFECT,
            "tests": {
                n: {"faster": c.p_faster, "slower": c.p_slower, "level": c.level} for n, c in self._compared.items()
            },
            "tracing": {
                "seconds_taken_off_the_baseline": gain,
                "seconds_per_call": CALL_SECONDS,
                "calls": {side: median([f.calls for f in self._side(side)]) for side in "AB" if self._side(side)},
            },
            "missing": self._missing(),
            "gained": [n for n, c in self._compared.items() if c.claim is Claim.FASTER],
        }
        return Latency(
            GateResult("G6", state, reason, evidence),
            {name: c.interval for name, c in self._compared.items()},
            measured,
            tuple(s for f in after for s in f.invocations),
            tuple(f.seconds["cuda_span"] for f in after if "cuda_span" in f.seconds),
        )

    def _side(self, side: str) -> list[Figures]:
        return [f for block in self._blocks for f in block[side]]

    def _available(self) -> list[str]:
        runs = [*self._side("A"), *self._side("B")]
        names = [name for name in FIGURES if runs and all(f.seconds.get(name, 0.0) > 0 for f in runs)]
        numbers = {side: {len(f.invocations) for f in self._side(side)} for side in "AB"}
        if numbers["A"] != numbers["B"] and "latency" in names:
            names.remove("latency")  # not the same invocations: nothing to compare
        return names

    def _missing(self) -> dict[str, str]:
        out = {n: why for f in (*self._side("A"), *self._side("B")) for n, why in f.missing.items()}
        numbers = [sorted({len(f.invocations) for f in self._side(side)}) for side in "AB"]
        if "latency" not in out and numbers[0] != numbers[1]:
            out["latency"] = f"the original has {numbers[0]} invocations, the version {numbers[1]}"
        return out

    def _figure(self, name: str) -> list[Block]:
        """The blocks of one figure. What the baseline pays more for tracing is taken off it; an invocation pays its share."""
        gain = 0.0 if name == "gpu_busy" else tracing_gain(self._side("A"), self._side("B"))
        if name == "latency":
            gain /= max(1, len(self._sides["A"].starts.spans))
        out = []
        for block in self._blocks:
            a = [f.seconds[name] - gain for f in block["A"]]
            b = [f.seconds[name] for f in block["B"]]
            if min(a) <= 0:
                return []
            out.append(Block((a[0], a[1]), (b[0], b[1])))
        return out


def judge(compared: Mapping[str, Comparison], name: str) -> tuple[GateState, str]:
    """The gate's state from the comparisons, `name` being the figure that governs."""
    slower = [n for n in JUDGED if n in compared and compared[n].claim is Claim.SLOWER]
    if slower:
        losses = ", ".join(f"{_title(n)} {_times(compared[n].interval)}" for n in slower)
        gains = [n for n, c in compared.items() if c.claim is Claim.FASTER]
        but = f", though {' and '.join(map(_title, gains))} gained" if gains else ""
        return GateState.FAILED, f"slower than the original: {losses}{but}"
    main = compared[name]
    if main.claim is Claim.FASTER:
        doubtful = [n for n in JUDGED if n in compared and compared[n].interval.middle < 1 / MINIMUM_EFFECT]
        if not doubtful:
            return GateState.PASSED, ""
        worse = ", ".join(f"{_title(n)} {_times(compared[n].interval)}" for n in doubtful)
        return GateState.INCONCLUSIVE, f"{_title(name)} gained, but another figure may be worse: {worse}"
    what = "no real gain" if main.no_gain else "no gain that these runs could show"
    return GateState.INCONCLUSIVE, f"{what}: {_title(name)} {_times(main.interval)}"


def _title(name: str) -> str:
    return {"latency": "latency", "cuda_span": "CUDA span", "wall": "wall-clock time", "gpu_busy": "GPU-busy time"}[
        name
    ]


def _times(interval: Interval) -> str:
    return f"x{interval.middle:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
