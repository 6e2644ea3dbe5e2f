"""G4 and the order of the traced runs. SIMULATED as in test_hub.py; the calls of full traces are those recorded on a GPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.gpu_validate.processes import Ended
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.trace.store import from_json
from stitchcuda.gpu_validate.verdict import GateResult, GateState, VerdictState
from stitchcuda.gpu_validate.version import Version

from tests.hub.scripted import GOOD, scripted_tracer
from tests.hub.test_hub import judge, passed, state

RECORDED = Path(__file__).parents[1] / "fixtures" / "traces"
PROGRAM = "tests/fixtures/traces/programs/streams.cu"


def analysed(version: Version) -> Analysis:
    index = Index()
    index.put(PROGRAM, (RECORDED / "programs" / "streams.cu").read_bytes())
    return index.analyse()


def traced(*args: Any, cwd: Path, **fields: Any) -> tuple[Ended, Trace | None]:
    """A version that says "lost" does without the event."""
    ended, trace = scripted_tracer(*args, cwd=cwd, **fields)
    if trace is None or trace.mode != "full":
        return ended, trace
    left_out = ["cudaMemcpy"]
    if "# lost" in (cwd / "main.py").read_text(encoding="utf-8"):
        left_out.append("cudaStreamWaitEvent")
    real = from_json(json.loads((RECORDED / "streams.json").read_text(encoding="utf-8")))
    calls = tuple(c for c in real.calls if c.api not in left_out)
    return ended, replace(trace, calls=calls, streams=real.streams, reads=())


@pytest.mark.parametrize(("all_gates", "asked"), [(False, 0), (True, 1)])
def test_a_lost_event_rejects_a_version_that_the_sanitizer_passes(tmp_path: Path, all_gates: bool, asked: int) -> None:
    sanitized: list[object] = []

    def memory(*args: object, **_: object) -> GateResult:
        sanitized.append(args)
        return passed("G4")

    changes: dict[str, Any] = {"analyse": analysed, "run_traced": traced, "memory": memory}
    verdict = judge(tmp_path, GOOD, GOOD + "# lost\n", all_gates=all_gates, **changes)
    gate = verdict.gate("G4")
    assert gate is not None and gate.state is GateState.FAILED and verdict.state is VerdictState.REJECTED
    assert len(sanitized) == asked
    assert "tools" in gate.evidence or asked
    assert verdict.primary is not None and verdict.primary.path == str(tmp_path / "source" / PROGRAM)
    lines = (RECORDED / "programs" / "streams.cu").read_text(encoding="utf-8").splitlines()
    assert "add<<<" in lines[verdict.primary.line - 1]
    json.dumps(dict(gate.evidence))


def test_the_same_order_leaves_the_gate_to_the_sanitizer(tmp_path: Path) -> None:
    verdict = judge(tmp_path, GOOD, GOOD + "# same\n", runs=2, analyse=analysed, run_traced=traced)
    gate = verdict.gate("G4")
    assert state(verdict, "G4") is GateState.PASSED
    assert gate is not None and gate.evidence["traced"]["checked"] and gate.evidence["traced"]["new"] == 0
