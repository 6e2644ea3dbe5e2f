"""G3: does the version show the same results as the original?

The original is run first, several times for each case, and against itself: what it does not repeat proves nothing and is masked by
token. Then the candidate's runs are compared, every one of them: plain, with all new device memory filled with a pattern (it must
not read what nobody wrote), and on request with the work of one stream after another held back (a race that is usually lucky).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stitchcuda.analysis.contract.project import ObserveSection
from stitchcuda.analysis.contract.types import Tolerance
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.observe.contents import Kind, forgotten, kept_bytes, without_contents
from stitchcuda.gpu_validate.observe.exchanges import Exchange
from stitchcuda.gpu_validate.observe.shown import Compared, Expectation, Shown, against, by_contents, expectation
from stitchcuda.gpu_validate.runs import Case, Room
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.trace.session import Delay, TraceRequest
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState

BASELINE_RUNS = 3
CANDIDATE_RUNS = 3
_DELAY_SECONDS = 2.0  # that all delays of one run add up to, about
_LEAST_DELAY, _MOST_DELAY = 20, 5000  # microseconds before one operation
_FINDINGS = 8
_KEPT = 4 << 30  # bytes of contents of the original, of all cases
_BUFFERS = 16  # told in the evidence
_LARGEST = ("different", "max_absolute", "max_relative")
POISONED = "poisoned memory"
TIMING, FULL = TraceRequest("timing"), TraceRequest("full")
KindsOf = Callable[[Trace], Sequence[Kind]]  # what the reads of a full trace of the original hold


@dataclass(frozen=True)
class Observed:
    """The baseline in one case. `probes` are runs under poison or delays that agree with it: only those can show something."""

    case: Case
    runs: tuple[Shown, ...]
    expected: Expectation
    probes: Mapping[str, TraceRequest] = field(default_factory=dict)
    findings: tuple[GateFinding, ...] = ()


@dataclass(frozen=True)
class BaselineResults:
    """`problem` is why nothing can be compared with the baseline, "" when something can."""

    observed: tuple[Observed, ...]
    problem: str = ""

    @property
    def full(self) -> Trace | None:
        """The full trace of the first case."""
        return next((r.trace for o in self.observed[:1] for r in o.runs if r.trace and r.trace.mode == "full"), None)

    @property
    def findings(self) -> tuple[GateFinding, ...]:
        return tuple(f for o in self.observed for f in o.findings)


def observe_baseline(
    room: Room,
    all_cases: Sequence[Case],
    observe: ObserveSection,
    tolerance: Tolerance,
    *,
    delays: bool = False,
    told: Callable[[str], None] = lambda _: None,
    kinds: KindsOf = lambda trace: [Kind()] * len(trace.reads),
) -> BaselineResults:
    """Runs the original. Raises Cancelled."""
    observed: list[Observed] = []
    contents, kept = by_contents(observe, tolerance), 0
    for case in all_cases:
        runs = []
        for k in range(BASELINE_RUNS):
            told(f"running the original {k + 1}/{BASELINE_RUNS} {case.name}".strip())
            request = _keeping(TIMING if k == 1 else FULL, contents)  # two full ones: counts may vary
            runs.append(room.run_with_memory(request, case))
            problem = _cannot_serve(runs[-1])
            if problem:
                break
        if problem and case.hidden and observed:
            what = f"the original itself does not run with {case.name}: {problem}"
            observed[0] = _with_finding(observed[0], what)
            continue
        if problem:
            return BaselineResults(tuple(observed), problem)
        expected = expectation(runs, observe, tolerance, kinds)
        kept += kept_bytes(expected.references)
        if kept > _KEPT:  # the first cases keep theirs
            kept -= kept_bytes(expected.references)
            expected = replace(expected, references=forgotten(expected.references))
        runs = [_light(run) for run in runs]
        if expected.faults:
            return BaselineResults(tuple(observed), expected.faults[0])
        found = [
            GateFinding(f"varies between runs: {line.strip()}"[:160], baseline=True) for line in _varying(expected)
        ]
        found += [GateFinding(f"{api} fails with error {code}", baseline=True) for api, code in sorted(expected.errors)]
        if expected.code:
            found.append(GateFinding(f"ends with {expected.code}", baseline=True))
        one = Observed(case, tuple(runs), expected, findings=tuple(found))
        observed.append(_probe(room, one, delays, told) if not observed else one)
    return BaselineResults(tuple(observed))


def _probe(room: Room, one: Observed, delays: bool, told: Callable[[str], None]) -> Observed:
    """Runs the baseline under poison and delays. Where it varies itself, that is a finding and shows nothing of a candidate."""
    contents = bool(one.expected.references)
    requests = {POISONED: TraceRequest("timing", poison=True)}
    full = one.runs[0].trace
    if delays and full is not None:
        requests |= {f"delays in stream {s}": r for s, r in delay_requests(full).items()}
    requests = {name: _keeping(request, contents) for name, request in requests.items()}
    probes, findings = {}, list(one.findings)
    for name, request in requests.items():
        told(f"running the original with {name}")
        result = against(one.expected, room.run_with_memory(request, one.case), Declared())
        if result.failures or result.unknown:
            why = result.failures[0].what if result.failures else result.unknown[0]
            findings.append(GateFinding(f"with {name} the original itself differs: {why}", baseline=True))
        else:
            probes[name] = request
    return Observed(one.case, one.runs, one.expected, probes, tuple(findings))


def delay_requests(full: Trace) -> dict[int, TraceRequest]:
    """One request a stream with device work: its operations held back, so that all delays together take about two seconds."""
    work: dict[int, int] = {}
    for op in full.ops:
        work[op.stream] = work.get(op.stream, 0) + 1
    out = {}
    for stream, count in sorted(work.items()):
        each = min(_MOST_DELAY, max(_LEAST_DELAY, int(_DELAY_SECONDS * 1e6 / count)))
        held = min(count, int(_DELAY_SECONDS * 1e6 / each))
        out[stream] = TraceRequest("timing", delays=(Delay(stream, each, 0, held),))
    return out


@dataclass(frozen=True)
class Equivalence:
    """The gate's result, with the candidate's full trace of the first case."""

    result: GateResult
    full: Trace | None = None


def equivalence(
    baseline: BaselineResults,
    room: Room,
    declared: Declared,
    *,
    told: Callable[[str], None] = lambda _: None,
    exchanges: Sequence[Exchange] = (),
) -> Equivalence:
    """Runs the candidate and compares. `exchanges`: kernels that stand for others (G1). Raises Cancelled."""
    if baseline.problem or not baseline.observed:
        reason = baseline.problem or "the original was not run"
        return Equivalence(GateResult("G3", GateState.INCONCLUSIVE, reason, findings=baseline.findings))
    full: Trace | None = None
    done: list[tuple[str, Compared]] = []
    for observed in baseline.observed:
        contents = bool(observed.expected.references)
        plan = [("", FULL), *[("", TIMING)] * (CANDIDATE_RUNS - 1)]
        plan = [*((name, _keeping(request, contents)) for name, request in plan), *observed.probes.items()]
        for name, request in plan:
            what = f"with {name}" if name else observed.case.name
            told(f"running the version {what}".strip())
            shown = room.run_with_memory(request, observed.case)
            if full is None and request.mode == "full" and shown.trace is not None:
                full = without_contents(shown.trace)
            if lacks_memory(observed.expected, shown):
                reason = "the GPU had no memory left for the version, twice: another process may hold it"
                return Equivalence(_result(GateState.INCONCLUSIVE, reason, done, baseline), full)
            compared = against(observed.expected, shown, declared, exchanges=exchanges)
            if name == POISONED:
                compared = _stale(compared, [c for _, c in done])
            title = " ".join(filter(None, (f"with {name}" if name else "", observed.case.name)))
            done.append((title, compared))
            if compared.failures:
                reason = f"{title}: {compared.failures[0].what}" if title else compared.failures[0].what
                result = _result(GateState.FAILED, reason, done, baseline, compared.failures)
                if stopped := "stuck" if shown.ended.stuck else shown.ended.stopped:
                    result = replace(result, evidence={**result.evidence, "stopped": stopped})
                return Equivalence(result, full)
            if shown.ended.stuck:
                break
    return Equivalence(_summed(done, baseline), full)


def _stale(compared: Compared, before: Sequence[Compared]) -> Compared:
    """A version that shows other results when memory was filled before, and the same ones otherwise, takes what an earlier run
    left for results: no tolerance is for that. The baseline was seen not to."""
    plain = {what for c in before for what in c.differs}
    stale = [what for what in compared.differs if what not in plain] if not plain else []
    return replace(compared, failures=(*compared.failures, *map(GateFinding, stale))) if stale else compared


def lacks_memory(expected: Expectation, shown: Shown) -> bool:
    """Whether the run failed for want of GPU memory, which the baseline's runs did not."""
    return shown.out_of_memory and not shown.ended.ok and all(code != 2 for _, code in expected.errors)


def _summed(done: Sequence[tuple[str, Compared]], baseline: BaselineResults) -> GateResult:
    unknown = list(dict.fromkeys(what for _, c in done for what in c.unknown))
    if unknown:
        found = [GateFinding(what) for what in unknown]
        return _result(GateState.INCONCLUSIVE, unknown[0], done, baseline, found)
    if not all(c.compared for _, c in done):
        masked = any(c.masked for _, c in done)
        reason = (
            "nothing comparable is left: all that it shows varies between runs of the original"
            if masked
            else "it shows no number, file or buffer that could be compared: print a checksum or write a file"
        )
        return _result(GateState.UNTESTED, reason, done, baseline)
    return _result(GateState.PASSED, "", done, baseline)


def _result(
    state: GateState,
    reason: str,
    done: Sequence[tuple[str, Compared]],
    baseline: BaselineResults,
    findings: Sequence[GateFinding] = (),
) -> GateResult:
    evidence: dict[str, Any] = {
        "cases": [o.case.name or "as it is" for o in baseline.observed],
        "baseline_runs": sum(len(o.runs) for o in baseline.observed),
        "candidate_runs": len(done),
        "probes": [name for o in baseline.observed for name in o.probes],
    }
    ended = [run.ended for o in baseline.observed for run in o.runs]
    if ended:  # what could not be kept from the program is said
        reachable = next((e.not_isolated or "could be reached" for e in ended if not e.isolated), "")
        evidence["network"] = f"not cut off: {reachable}" if reachable else "cut off"
    if done:
        least = min((c for _, c in done), key=lambda c: c.compared)
        evidence |= {"compared": dict(least.counts), "masked": least.masked, "words": least.words}
        evidence |= _numbers(done)
    return GateResult("G3", state, reason, evidence, (*findings[:_FINDINGS], *baseline.findings[:_FINDINGS]))


def _numbers(done: Sequence[tuple[str, Compared]]) -> dict[str, Any]:
    """The reads whose numbers were compared, each with the largest differences of all runs; the worst ones of many."""
    worst: dict[tuple[Any, ...], dict[str, Any]] = {}
    for _, compared in done:
        for one in compared.buffers:
            key = (one["read"], one["elements"], one["dtype"])
            before = worst.setdefault(key, dict(one))
            for name in _LARGEST:
                if name in one:
                    before[name] = max(before[name], one[name])
    if not worst:
        return {}
    listed = sorted(worst.values(), key=lambda b: (-b.get("max_relative", 0.0), b["read"]))
    return {"buffers": listed[:_BUFFERS], "buffers_by_contents": len(listed)}


def _keeping(request: TraceRequest, contents: bool) -> TraceRequest:
    return replace(request, contents=True) if contents else request


def _light(run: Shown) -> Shown:
    return run if run.trace is None else replace(run, trace=without_contents(run.trace))


def _cannot_serve(run: Shown) -> str:
    if run.out_of_memory and not run.ended.ok:
        return "the GPU had no memory left for the original, twice: another process may hold it"
    return f"the original {run.ended.describe()}" if run.broken else ""


def _varying(expected: Expectation) -> list[str]:
    lines = [*(expected.stdout.varying if expected.stdout else ()), *expected.stderr.varying]
    lines = [line.encode(errors="backslashreplace").decode() for line in lines[:3]]
    return lines + [f"the file {name}" for name, file in expected.files.items() if file is None]


def _with_finding(one: Observed, what: str) -> Observed:
    return Observed(one.case, one.runs, one.expected, one.probes, (*one.findings, GateFinding(what, baseline=True)))
