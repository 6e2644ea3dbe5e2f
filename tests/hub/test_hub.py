"""The hub from version to verdict.

SIMULATED (no GPU here): the tracer (scripted.py), the compiler (a version's text is its program), the sanitizer and the analysis. Real:
the runs, the comparison, the timing of processes (but for `clocked`), the order of the gates and the verdict.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Bound, Contract
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.proof.model import BY_HAND, Declared, May
from stitchcuda.gpu_validate.building.model import BuildFailed, Built
from stitchcuda.gpu_validate.hub import Cancelled, Hub, HubOptions, Tools
from stitchcuda.gpu_validate.machine_state import MachineState
from stitchcuda.gpu_validate.processes import Ended
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.verdict import GATES, GateResult, GateState, Verdict, VerdictState
from stitchcuda.gpu_validate.verdict_json import feedback, verdict_from_json, verdict_to_json
from stitchcuda.gpu_validate.version import Version

from tests.hub.scripted import GOOD, PROJECT, changed, scripted_tracer

SLOW = changed(("total = sum", "time.sleep(0.08)\ntotal = sum"))
FAST = changed(("total = sum", "time.sleep(0.01)\ntotal = sum"))


class ScriptBuilds:
    """Stands for `building.builder.Builder`: the text of main.py is the program."""

    def __init__(self, baseline: Version, project: Project, *, scratch: Path, **_: object) -> None:
        self._scratch = scratch

    def build(self, version: Version) -> Built | BuildFailed:
        text = version.read("main.py").decode()
        if "syntax error" in text:
            return BuildFailed("main.py:1: expected ;")
        tree = self._scratch / version.digest
        tree.mkdir(parents=True, exist_ok=True)
        (tree / "main.py").write_text(text, encoding="utf-8")
        return Built(version.digest, tree, None, 0.0, program_digest=text)

    @contextmanager
    def placed(self, built: Built) -> Iterator[Path]:
        place = self._scratch / "place"
        place.mkdir()
        (place / "main.py").write_bytes((built.tree / "main.py").read_bytes())
        try:
            yield place
        finally:
            for path in place.iterdir():
                path.unlink()
            place.rmdir()


def passed(gate: str) -> GateResult:
    return GateResult(gate, GateState.PASSED)


def tools(**changes: Any) -> Tools:
    def build(_: Built | BuildFailed, after: Built | BuildFailed) -> GateResult:
        return GateResult("G2", GateState.FAILED, after.reason) if isinstance(after, BuildFailed) else passed("G2")

    base = Tools(
        analyse=lambda version: replace(Index().analyse(), sources={"main.py": version.read("main.py")}),
        structure=lambda _before, _after: passed("G0"),
        order=lambda _before, _after, _declared: GateResult("G1", GateState.PROVED),
        builder=ScriptBuilds,
        build=build,
        memory=lambda *_, **__: passed("G4"),
        run_traced=scripted_tracer,
        library=lambda: Path("simulated"),
        gpu=lambda: "",
        machine=lambda: MachineState(sm_clock=1980, source="simulated"),
    )
    return replace(base, **changes)


def judge(
    folder: Path,
    baseline: str,
    candidate: str,
    *,
    contract: Contract | None = None,
    runs: int = 12,
    all_gates: bool = False,
    cancelled: Callable[[], bool] = lambda: False,
    **changes: Any,
) -> Verdict:
    source = folder / "source"
    source.mkdir(exist_ok=True)
    (source / "main.py").write_text(baseline, encoding="utf-8")
    version = Version(source)
    options = HubOptions(runs=runs, scratch=folder / "scratch")
    with Hub(version, PROJECT, contract or Contract(), tools(**changes), options=options, cancelled=cancelled) as hub:
        verdict = hub.judge(version.with_texts({"main.py": candidate.encode()}), BY_HAND, all_gates=all_gates)
    assert (source / "main.py").read_text(encoding="utf-8") == baseline
    assert not list((folder / "scratch").iterdir())
    assert [g.gate for g in verdict.gates] == list(GATES)
    assert all(g.reason for g in verdict.gates if g.state not in (GateState.PASSED, GateState.PROVED))
    return verdict


def state(verdict: Verdict, gate: str) -> GateState:
    result = verdict.gate(gate)
    assert result is not None
    return result.state


def test_a_slower_program_is_rejected_although_its_kernels_are_as_fast(tmp_path: Path) -> None:
    """The simulated device times are equal; only the wall clock, which is real, differs."""
    verdict = judge(tmp_path, FAST, SLOW)
    assert verdict.state is VerdictState.REJECTED and state(verdict, "G6") is GateState.FAILED
    assert verdict.primary is not None and "wall-clock" in verdict.primary.issue
    assert verdict.speedup["wall"].high < 1 < verdict.speedup["cuda_span"].high * 1.01


def clocked(seconds: Mapping[str, float]) -> Callable[..., tuple[Ended, Trace | None]]:
    """The tracer with another clock: a program with such a word in it takes that long, give or take a tenth, however busy the machine
    that runs it is."""
    chance = random.Random(5)

    def run(command: Sequence[str], *, cwd: Path, **more: Any) -> tuple[Ended, Trace | None]:
        text = (cwd / "main.py").read_text(encoding="utf-8")
        ended, trace = scripted_tracer(command, cwd=cwd, **more)
        (took,) = (each for word, each in seconds.items() if word in text)
        return replace(ended, seconds=took * chance.uniform(0.9, 1.1)), trace

    return run


def test_a_gain_of_wall_time_alone_is_told_and_not_accepted(tmp_path: Path) -> None:
    verdict = judge(tmp_path, SLOW, FAST, run_traced=clocked({"sleep(0.08)": 0.12, "sleep(0.01)": 0.05}))
    assert verdict.state is VerdictState.UNPROVEN and state(verdict, "G6") is GateState.INCONCLUSIVE
    assert verdict.speedup["wall"].low > 1.02
    g6 = verdict.gate("G6")
    assert g6 is not None and g6.evidence["gained"] == ["wall"] and g6.evidence["governing"] == "cuda_span"


def test_less_device_time_is_accepted_and_bounds_are_answered(tmp_path: Path) -> None:
    """One of two kernels goes: declared as fused. The simulated span falls from four calls to three."""
    contract = Contract(
        bounds=(Bound("speedup", "mean", ">=", 1.1, "1"), Bound("transfer_bytes", "mean", "<=", 8.0, "B"),
                Bound("occupancy", "mean", ">=", 0.5, "1"))
    )  # fmt: skip
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.py").write_text(SLOW, encoding="utf-8")
    fused = changed(('; kernel("sum", 1)', ""))
    version = Version(source)
    with Hub(version, PROJECT, contract, tools(), options=HubOptions(runs=12, scratch=tmp_path / "s")) as hub:
        alone = hub.measure()
        verdict = hub.judge(version.with_texts({"main.py": fused.encode()}), Declared(launches=May.FEWER))
    assert verdict.state is VerdictState.ACCEPTED and verdict.primary is None
    assert verdict.speedup["cuda_span"].low > 1.02
    assert [b.met for b in verdict.bounds] == [True, False, None]
    assert alone.problem == "" and alone.measured["cuda_span"]["baseline"] == pytest.approx(4e-3)
    assert alone.trace is not None and [b.met for b in alone.bounds] == [None, False, None]


def test_a_program_against_itself_is_neither_accepted_nor_rejected(tmp_path: Path) -> None:
    verdict = judge(tmp_path, GOOD, GOOD + "# the same\n", runs=8)
    assert verdict.state is VerdictState.UNPROVEN and state(verdict, "G6") is GateState.INCONCLUSIVE
    same = judge(tmp_path, GOOD, GOOD)
    assert same.state is VerdictState.UNPROVEN and "byte for byte" in str(same.gate("G6"))


def test_a_timed_run_that_shows_other_results_is_a_failure(tmp_path: Path) -> None:
    """It counts its runs where the fresh folder does not reach, and goes wrong late."""
    count = tmp_path / "count"
    late = changed(
        ("read(total // 2)", f"""
n = len(open({str(count)!r}).read()) if os.path.exists({str(count)!r}) else 0
open({str(count)!r}, "a").write("x")
read(total // 2 + (n > 6))"""))  # fmt: skip
    verdict = judge(tmp_path, GOOD, late)
    assert verdict.state is VerdictState.REJECTED
    assert state(verdict, "G3") is GateState.PASSED and state(verdict, "G6") is GateState.FAILED


def test_work_that_only_the_checked_runs_do_is_no_gain(tmp_path: Path) -> None:
    """It keeps its results where the fresh folder does not reach, so that all that it shows stays right."""
    count = tmp_path / "count"
    keeps = changed(
        ('; kernel("sum", 1)', f"""
n = len(open({str(count)!r}).read()) if os.path.exists({str(count)!r}) else 0
open({str(count)!r}, "a").write("x")
if n <= 3: kernel("sum", 1)"""))  # fmt: skip
    verdict = judge(tmp_path, GOOD, keeps)
    assert verdict.state is VerdictState.UNPROVEN and state(verdict, "G3") is GateState.PASSED
    g6 = verdict.gate("G6")
    assert g6 is not None and g6.state is GateState.INCONCLUSIVE and "kernel sum ran 0 times" in g6.reason


def test_after_a_failure_the_rest_is_not_run_unless_asked(tmp_path: Path) -> None:
    failing: dict[str, Any] = {"structure": lambda _before, _after: GateResult("G0", GateState.FAILED, "a new hazard")}
    verdict = judge(tmp_path, GOOD, GOOD + "#\n", **failing)
    assert [g.state for g in verdict.gates[1:]] == [GateState.UNTESTED] * 7
    everything = judge(tmp_path, GOOD, GOOD + "#\n", all_gates=True, runs=8, **failing)
    assert everything.state is VerdictState.REJECTED
    assert state(everything, "G3") is GateState.PASSED and state(everything, "G6") is GateState.INCONCLUSIVE


def test_without_a_gpu_order_is_proved_and_the_rest_untested(tmp_path: Path) -> None:
    verdict = judge(tmp_path, GOOD, FAST, gpu=lambda: "there is no GPU here")
    assert verdict.state is VerdictState.UNPROVEN
    assert [state(verdict, g) for g in ("G0", "G1", "G2")] == [GateState.PASSED, GateState.PROVED, GateState.PASSED]
    for gate in ("G3", "G4", "G6"):
        result = verdict.gate(gate)
        assert result is not None and (result.state, result.reason) == (GateState.UNTESTED, "there is no GPU here")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("Makefile", GateState.UNTESTED),
        ("cmake/flags.cmake", GateState.UNTESTED),
        ("detail/loop.tpp", GateState.UNTESTED),
        ("README.md", GateState.PROVED),
        ("stitchcuda.toml", GateState.PROVED),
    ],
)
def test_what_the_proof_does_not_read_is_not_proved(tmp_path: Path, path: str, expected: GateState) -> None:
    """A build file can turn the same sources into another program."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.py").write_text(GOOD, encoding="utf-8")
    version = Version(source)
    with Hub(
        version, PROJECT, Contract(), tools(gpu=lambda: "no GPU"), options=HubOptions(scratch=tmp_path / "s")
    ) as hub:
        verdict = hub.judge(version.with_texts({path: b"new"}), BY_HAND)
        g1 = verdict.gate("G1")
        assert g1 is not None and g1.state is expected and (path in g1.reason) == (expected is GateState.UNTESTED)
        assert state(hub.judge(version, BY_HAND), "G1") is GateState.PROVED


def test_a_version_that_does_not_build_is_rejected_and_not_run(tmp_path: Path) -> None:
    verdict = judge(tmp_path, GOOD, "syntax error")
    assert verdict.state is VerdictState.REJECTED
    assert verdict.primary is not None and "expected ;" in verdict.primary.issue


def test_a_hang_is_ended_and_the_gpu_is_asked_before_anything_else_runs(tmp_path: Path) -> None:
    asked: list[str] = []
    answers = iter(["", "the GPU does not answer"])

    def gpu() -> str:
        asked.append("")
        return next(answers)

    project = replace(PROJECT, run=replace(PROJECT.run, timeout=1.0))
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.py").write_text(GOOD, encoding="utf-8")
    version, hangs = Version(source), changed(("\nend()", "\ntime.sleep(60)"))
    with Hub(version, project, Contract(), tools(gpu=gpu), options=HubOptions(scratch=tmp_path / "s")) as hub:
        verdict = hub.judge(version.with_texts({"main.py": hangs.encode()}), BY_HAND, all_gates=True)
    assert state(verdict, "G3") is GateState.FAILED and "limit of seconds" in str(verdict.gate("G3"))
    gate = verdict.gate("G3")
    assert gate is not None and gate.evidence["stopped"] == "seconds"
    assert len(asked) == 2
    assert verdict.gate("G4") == GateResult("G4", GateState.UNTESTED, "the GPU does not answer")


def test_another_process_on_the_gpu_makes_times_worthless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stitchcuda.gpu_validate.gates.g6_latency._BUSY_SECONDS", 0.0)
    busy = MachineState(utilization=90, processes=1, source="simulated")
    verdict = judge(tmp_path, SLOW, FAST, machine=lambda: busy)
    g6 = verdict.gate("G6")
    assert g6 is not None and g6.state is GateState.INCONCLUSIVE and "another process" in g6.reason


def test_the_original_is_built_and_run_once_for_all_candidates(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.py").write_text(GOOD, encoding="utf-8")
    version, said = Version(source), []
    wrong = changed(('print("sum", total)', 'print("sum", 1)'))
    with Hub(version, PROJECT, Contract(), tools(), options=HubOptions(scratch=tmp_path / "s"),
             progress=lambda p: said.append(p.sentence)) as hub:  # fmt: skip
        for text in (wrong, wrong + "#\n"):
            assert hub.judge(version.with_texts({"main.py": text.encode()}), BY_HAND).state is VerdictState.REJECTED
    assert sum("running the original" in s for s in said) == 4  # three runs and one under poison


def test_cancelling_ends_it_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    calls = iter(range(1000))
    with pytest.raises(Cancelled):
        judge(tmp_path, GOOD, FAST, cancelled=lambda: next(calls) > 20)
    assert not list((tmp_path / "scratch").iterdir())


def test_a_verdict_survives_json(tmp_path: Path) -> None:
    wrong = changed(('print("sum", total)', 'print("sum", 1)'))
    verdict = judge(tmp_path, GOOD, wrong, contract=Contract(bounds=(Bound("latency", "p99", "<", 0.008, "s"),)))
    text = json.dumps(verdict_to_json(verdict))
    assert verdict_from_json(json.loads(text)) == verdict
    short = feedback(verdict)
    assert short["primary"]["issue"] and len(json.dumps(short)) < 4000


def test_analysis_is_what_the_gates_get(tmp_path: Path) -> None:
    seen: list[Analysis] = []

    def order(before: Analysis, after: Analysis, _: object) -> GateResult:
        seen.extend((before, after))
        return GateResult("G1", GateState.UNTESTED, "unknown call")

    verdict = judge(tmp_path, GOOD, GOOD, gpu=lambda: "no GPU", order=order)
    assert len(seen) == 2 and state(verdict, "G1") is GateState.UNTESTED


def test_a_version_can_take_the_originals_place(tmp_path: Path) -> None:
    """Two versions are compared so: what the tree holds plays no part."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.py").write_text(GOOD, encoding="utf-8")
    best = changed(('print("sum", total)', 'print("sum", total + 1)'))
    version = Version(source, {"main.py": best.encode()})
    with Hub(version, PROJECT, Contract(), tools(), options=HubOptions(runs=8, scratch=tmp_path / "scratch")) as hub:
        same = hub.judge(version.with_texts({"main.py": f"{best}#\n".encode()}), BY_HAND)
        other = hub.judge(version.with_texts({"main.py": GOOD.encode()}), BY_HAND)
    assert state(same, "G3") is GateState.PASSED and state(same, "G6") is GateState.INCONCLUSIVE
    assert state(other, "G3") is GateState.FAILED
