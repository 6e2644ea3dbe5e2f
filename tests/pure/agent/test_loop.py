"""The loop with parts that are made up: what it proposes, keeps, refuses, and what it ends in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from stitchcuda.agent import loop
from stitchcuda.agent.loop import Parts
from stitchcuda.agent.outcome import Candidate, Kind, Result, Stop
from stitchcuda.agent.proposing import Analyser, Proposed, told
from stitchcuda.agent.transforms.transform import Outcome, Proposal, Refusal, Situation
from stitchcuda.agent.units import TextEdit
from stitchcuda.analysis.contract.types import Bound, Contract
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.program.ir import Site
from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.gpu_validate.hub import BaselineMeasured as Baseline
from stitchcuda.gpu_validate.runs import Cancelled
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.verdict import (
    REQUIRED,
    BoundResult,
    GateFinding,
    GateResult,
    GateState,
    Interval,
    Verdict,
    VerdictState,
    decide,
)
from stitchcuda.gpu_validate.version import Version

LATENCY = Bound("latency", "mean", "<", 0.008, "s")
MARK = b"\xef\xbb\xbf"
SPEED = Contract(bounds=(LATENCY,))


@dataclass
class Removes:
    """A transform that removes a line of text wherever it stands; `after` has to be gone first."""

    ID: str
    line: bytes
    after: bytes = b""

    def find(self, situation: Situation) -> Outcome:
        proposals = []
        refusals = []
        for path, text in sorted(situation.analysis.sources.items()):
            for match in re.finditer(re.escape(self.line) + rb"[^\n]*\n", text):
                line = text.count(b"\n", 0, match.start()) + 1
                if self.after and self.after in text:
                    refusals.append(Refusal(self.ID, path, line, f"{self.after.decode()} stands in the way"))
                    continue
                edit = TextEdit(path, match.start(), match.end(), b"")
                declared = Declared((self.ID,), waits=May.FEWER)
                proposals.append(Proposal(self.ID, f"{self.ID} is needless", path, line, (edit,), declared, ()))
        return Outcome(tuple(proposals), tuple(refusals))


def check(_: Analysis, after: Analysis, declared: Declared) -> tuple[GateResult, ...]:
    """Proved unless a text says otherwise: every file must keep its `// must` lines."""
    assert declared.waits is May.FEWER
    for path, text in after.sources.items():
        if b"must" in text and text.count(b"must stay") < 1:
            finding = GateFinding("read here", path, 3)
            return (GateResult("G1", GateState.FAILED, "a host read lost its wait", findings=(finding,)),)
        if b"unknown" in text and b"call();" not in text:
            return (GateResult("G1", GateState.UNTESTED, "an unresolved call"),)
    return (GateResult("G0", GateState.PASSED), GateResult("G1", GateState.PROVED))


@dataclass
class Hub:
    """Judges by what is left in the texts: `bad` texts must not be gone; every removed line gains 10 %."""

    baseline: Baseline = field(default_factory=Baseline)
    keeps: tuple[bytes, ...] = ()
    untested: tuple[str, ...] = ()
    gains: bool = True
    latency: float = 0.009
    asked: list[Version] = field(default_factory=list)

    def measure(self) -> Baseline:
        return self.baseline

    def judge(self, candidate: Version, declared: Declared) -> Verdict:
        version = candidate
        self.asked.append(version)
        gates = [GateResult(g, GateState.PASSED) for g in REQUIRED]
        texts = b"".join(version.read(p.name) for p in version.folder.iterdir())
        if any(k not in texts for k in self.keeps):
            gates[3] = GateResult("G3", GateState.FAILED, "other results")
        for name in self.untested:
            gates[REQUIRED.index(name)] = GateResult(name, GateState.UNTESTED, "no GPU here")
        if not self.gains:
            gates[-1] = GateResult("G6", GateState.INCONCLUSIVE, "less than 2 %")
        removed = sum(len((version.folder / p).read_bytes()) - len(t) for p, t in version.texts.items())
        speed = 1 + removed / 100
        measured = self.latency / speed
        bounds = (BoundResult({"metric": "latency", "statistic": "mean", "relation": "<", "value": 0.008, "unit": "s"},
                              measured, measured < 0.008),)  # fmt: skip
        state = decide(gates)
        return Verdict(state, tuple(gates), {"latency": Interval(speed, speed, speed)}, bounds)


@dataclass
class Told:
    steps: list[tuple[str, str]] = field(default_factory=list)
    units: Proposed | None = None
    candidates: list[Candidate] = field(default_factory=list)

    def step(self, kind: str, sentence: str, data: Mapping[str, object]) -> None:
        self.steps.append((kind, sentence))

    def proposed(self, proposed: Proposed) -> None:
        self.units = proposed

    def judged(self, candidate: Candidate) -> None:
        self.candidates.append(candidate)


def analyse(version: Version) -> Analysis:
    """The texts without their byte-order mark, as the real analysis has them."""
    sources = {p.name: version.read(p.name).removeprefix(MARK) for p in sorted(version.folder.iterdir())}
    return replace(Index().analyse(), sources=sources)


def run(
    folder: Path,
    texts: dict[str, bytes],
    transforms: Sequence[Removes],
    hub: Hub,
    contract: Contract = SPEED,
    stopped: Callable[[], Stop | None] = lambda: None,
    **analyser: object,
) -> tuple[Result, Told]:
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    told = Told()
    tools = replace(Analyser(analyse, check), **analyser)  # type: ignore[arg-type]
    result = loop.stitch(Version(folder), contract, Parts(transforms, tools, hub, told, stopped))
    for name, text in texts.items():
        assert (folder / name).read_bytes() == text  # the user's tree is never written
    return result, told


WAIT, ALLOC = Removes("remove-wait", b"wait();"), Removes("hoist", b"alloc();", after=b"wait();")
TEXT = b"a\nwait();\nb\nalloc();\nwait();\nc\n"


def test_units_of_all_transforms_are_judged_together_and_later_ones_build_on_those_that_enable_them(
    tmp_path: Path,
) -> None:
    hub = Hub()
    result, told = run(tmp_path, {"a.cu": TEXT}, [WAIT, ALLOC], hub)
    assert (result.outcome, result.stopped) == (Kind.BOUNDS_MET, Stop.CONTRACT_MET)
    assert len(hub.asked) == 1 and hub.asked[0].texts == {"a.cu": b"a\nb\nc\n"}
    first, second, third = result.units
    assert (first.parents, second.parents) == ((), ())
    assert third.transform == "hoist" and third.parents == (first.id, second.id)
    assert result.best is not None and result.best.units == tuple(u.id for u in result.units)
    assert first.serves == ("bounds[0]",)
    assert told.units is not None and told.units.units == result.units and len(told.candidates) == 1


def test_what_is_found_in_the_original_too_builds_on_nothing(tmp_path: Path) -> None:
    result, _ = run(tmp_path, {"a.cu": TEXT}, [WAIT, replace(ALLOC, after=b"")], Hub())
    assert [u.parents for u in result.units] == [(), (), ()]


def test_a_byte_order_mark_and_its_text_stay_as_they_are(tmp_path: Path) -> None:
    result, told = run(tmp_path, {"a.cu": MARK + TEXT.replace(b"\n", b"\r\n")}, [WAIT, ALLOC], hub := Hub())
    assert hub.asked[0].texts == {"a.cu": MARK + b"a\r\nb\r\nc\r\n"} and not result.refusals
    assert len(result.units) == 3 and told.units is not None


def test_what_is_not_proved_is_refused_with_its_line_in_the_original(tmp_path: Path) -> None:
    texts = {"a.cu": TEXT, "b.cu": b"must\nwait(); // must stay\nwait();\n", "c.cu": b"unknown\nwait(); call();\n"}
    result, _ = run(tmp_path, texts, [WAIT, ALLOC], hub := Hub())
    assert result.outcome is Kind.BOUNDS_MET
    assert {(r.path, r.line, r.reason) for r in result.refusals} == {
        ("b.cu", 2, "G1 failed: a host read lost its wait (b.cu:3: read here)"),
        ("c.cu", 2, "G1 untested: an unresolved call"),
    }
    assert hub.asked[0].texts == {"a.cu": b"a\nb\nc\n", "b.cu": b"must\nwait(); // must stay\n"}


@pytest.mark.parametrize(
    ("what", "at"),
    [
        ("host code changed", "a.cu:3"),
        ("host code changed (line of the original)", "a.cu:3 of the original"),
        ("a read", "a.cu:3: a read"),
    ],
)
def test_a_gate_is_told_with_its_place_and_without_saying_it_twice(what: str, at: str) -> None:
    finding = GateFinding(what, "a.cu", 3)
    gate = GateResult("G1", GateState.UNTESTED, "host code changed", findings=(finding,))
    assert told(gate) == f"G1 untested: host code changed ({at})"


def test_what_only_supports_others_does_not_stay_alone(tmp_path: Path) -> None:
    class Pool(Removes):
        def find(self, situation: Situation) -> Outcome:
            found = super().find(situation)
            own = tuple(replace(p, sites=(Site("", p.path, (p.line, p.line)),)) for p in found.proposals)
            served = tuple(site for p in own for site in p.sites)
            setup = TextEdit("a.cu", 0, 0, b"setup();\n")
            first = own[:1] if b"setup" not in situation.analysis.sources["a.cu"] else ()
            return Outcome((*own, *(replace(p, edits=(setup,), sites=served, supports=True) for p in first)))

    pool = Pool("hoist", b"alloc();")
    texts = {"a.cu": b"unknown\nalloc(); // call();\n", "b.cu": b"alloc();\n"}
    result, _ = run(tmp_path, texts, [pool], hub := Hub())
    assert hub.asked[0].texts == {"a.cu": b"setup();\n" + texts["a.cu"], "b.cu": b""} and len(result.units) == 2
    result, _ = run(tmp_path, {**texts, "b.cu": b""}, [pool], hub := Hub())
    assert not result.units and not hub.asked
    assert [r.reason for r in result.refusals] == ["G1 untested: an unresolved call"]


def test_a_rejected_batch_is_halved_down_to_the_units_to_blame(tmp_path: Path) -> None:
    texts = {f"{k}.cu": b"wait(); // %d\n" % k for k in range(8)}
    hub = Hub(keeps=(b"// 5",))
    result, told = run(tmp_path, {**texts, "5.cu": b"wait(); // 5\nalloc();\n"}, [WAIT, ALLOC], hub)
    assert result.best is not None and len(result.best.units) == 7
    assert [(r.path, r.line) for r in result.refusals if "G3 failed" in r.reason] == [("5.cu", 1)]
    # what had been proved on top of it goes with it
    assert next(r.reason for r in result.refusals if r.transform == "hoist").endswith("which was refused")
    assert len(hub.asked) <= 9
    best = max(told.candidates, key=lambda c: c.speedup[1].middle if c.speedup else 0)
    assert result.best.verdict.state is VerdictState.ACCEPTED
    assert best.verdict.state is VerdictState.REJECTED  # the fastest one was wrong, and was not taken


def test_a_bound_out_of_reach_is_answered_with_the_distance_and_a_question(tmp_path: Path) -> None:
    result, _ = run(tmp_path, {"a.cu": TEXT}, [WAIT], Hub(latency=0.1))
    assert result.outcome is Kind.BEST_EFFORT and result.best is not None
    assert "mean latency < 8 ms is not met: measured 86.21 ms, off by a factor of 10.78" in result.reason
    assert result.question is not None and result.question.field == "bounds[0]"
    assert result.question.options == ("accept 86.21 ms", "keep the bound")


_PREVIEW = "a preview, not checked here: G3 equivalence, G4 memory and races, G6 latency (no GPU here)"


@pytest.mark.parametrize(
    ("hub", "outcome", "words"),
    [
        (Hub(untested=("G3", "G4", "G6")), Kind.NOT_VALIDATED, _PREVIEW),
        (Hub(gains=False), Kind.NO_SAFE_CHANGE, "no gain that can be measured"),
        (Hub(keeps=(b"wait",)), Kind.NO_SAFE_CHANGE, "every proposed change was rejected"),
        (Hub(baseline=Baseline("a.cu:1: does not compile")), Kind.FAILED, "does not compile"),
    ],
    ids=["no gpu", "no gain", "wrong", "broken"],
)  # fmt: skip
def test_what_else_it_can_end_in(tmp_path: Path, hub: Hub, outcome: Kind, words: str) -> None:
    result, _ = run(tmp_path, {"a.cu": b"wait();\nx\n"}, [WAIT], hub)
    assert result.outcome is outcome and words in result.reason
    assert (result.best is not None) == (outcome is Kind.NOT_VALIDATED)
    if outcome is Kind.FAILED:
        assert not hub.asked and not result.units


def test_nothing_to_propose_is_an_answer_with_its_reasons(tmp_path: Path) -> None:
    unmet = BoundResult(
        {"metric": "latency", "statistic": "mean", "relation": "<", "value": 0.008, "unit": "s"}, 0.016, False
    )
    hub = Hub(baseline=Baseline(bounds=(unmet,)))
    result, _ = run(tmp_path, {"a.cu": b"wait();\nalloc();\n"}, [ALLOC], hub)
    assert result.outcome is Kind.NO_SAFE_CHANGE and not hub.asked
    assert "measured 16 ms, off by a factor of 2.00" in result.reason
    assert [(r.line, r.reason) for r in result.refusals] == [(2, "wait(); stands in the way")]


def test_a_contract_that_the_original_meets_changes_nothing(tmp_path: Path) -> None:
    met = BoundResult({"metric": "latency"}, 0.001, True)
    hub = Hub(baseline=Baseline(bounds=(met,)))
    result, _ = run(tmp_path, {"a.cu": TEXT}, [WAIT], hub)
    assert (result.outcome, result.stopped, result.best) == (Kind.BOUNDS_MET, Stop.CONTRACT_MET, None)
    assert not hub.asked


def test_a_forbidden_transform_is_not_tried(tmp_path: Path) -> None:
    result, told = run(tmp_path, {"a.cu": TEXT}, [WAIT], Hub(), Contract(forbid=("remove-wait",)))
    assert result.outcome is Kind.NO_SAFE_CHANGE and not result.units
    assert ("forbidden", "remove-wait: the contract forbids it") in told.steps


@pytest.mark.parametrize("path", ["../a.cu", "/etc/a.cu", "x/../../a.cu", "C:\\a.cu"])
def test_a_change_outside_of_the_program_is_refused(tmp_path: Path, path: str) -> None:
    class Outside(Removes):
        def find(self, situation: Situation) -> Outcome:
            found = super().find(situation)
            edits = tuple(replace(e, path=path) for e in found.proposals[0].edits)
            return Outcome((replace(found.proposals[0], edits=edits),))

    result, _ = run(tmp_path, {"a.cu": b"wait();\n"}, [Outside("outside", b"wait();")], hub := Hub())
    assert result.outcome is Kind.NO_SAFE_CHANGE and not hub.asked
    assert "outside of the program's folder" in result.refusals[0].reason


def test_proposals_priced_below_the_noise_are_left_out(tmp_path: Path) -> None:
    def price(proposals: Sequence[Proposal], _: Analysis) -> Sequence[float | None]:
        return [1e-3 if p.line == 2 else 1e-7 for p in proposals]

    hub = Hub()
    (tmp_path / "a.cu").write_bytes(TEXT)
    hub.baseline = Baseline(trace=Trace("full", 0, 0, 1))
    parts = Parts([WAIT], Analyser(analyse, check), hub, Told(), pricing=lambda trace: (price, 1e-5))
    result = loop.stitch(Version(tmp_path), Contract(), parts)
    assert [u.edits[0].start for u in result.units] == [2]
    assert [(r.line, "less than can be measured" in r.reason) for r in result.refusals] == [(5, True)]


def test_it_stops_when_told_and_says_why(tmp_path: Path) -> None:
    class Slow(Hub):
        def judge(self, candidate: Version, declared: Declared) -> Verdict:
            raise Cancelled

    result, _ = run(tmp_path, {"a.cu": TEXT}, [WAIT], Slow())
    assert (result.outcome, result.stopped) == (Kind.NO_SAFE_CHANGE, Stop.CANCELLED)
    assert result.reason == "it was cancelled before a version was accepted"
    hub = Hub()
    result, _ = run(tmp_path, {"a.cu": TEXT}, [WAIT], hub, stopped=lambda: Stop.BUDGET_SPENT)
    assert (result.outcome, result.stopped) == (Kind.NO_SAFE_CHANGE, Stop.BUDGET_SPENT) and not hub.asked
