"""The bench with host stages: the real hub with the reference version as the original.

SIMULATED: builds and runs, as in `test_bench.py`. A version in which the host stage is written leaves what it does between marks; what
it leaves on the host is shown in both.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.agent.implementing.bench import Bench
from stitchcuda.agent.implementing.placing import edits_of
from stitchcuda.agent.implementing.reference import BEGIN, END
from stitchcuda.agent.versions import edited
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.hub import HubOptions
from stitchcuda.gpu_validate.tools import Tools
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, HostRead, Trace
from stitchcuda.gpu_validate.trace.session import TraceRequest
from stitchcuda.gpu_validate.verdict import GateResult, GateState, Verdict, VerdictState
from stitchcuda.gpu_validate.version import Version

from tests.llm.implementing.test_bench import MILLI, Machine
from tests.pure.implementing.host_programs import MAIN, MARK, RETURNS_EARLY, RIGHT, STAGE, program
from tests.pure.implementing.programs import stage_of

ROUNDED = RIGHT.replace("{\n", "{  // ROUNDED\n", 1)
OTHER = RIGHT.replace("{\n", "{  // OTHER\n", 1)
SLOW = RIGHT.replace("{\n", "{  // SLOW\n", 1)
FAILS = RIGHT.replace("{\n", "{  // FAILS\n", 1)
LINE = program()[: program().index(STAGE)].count("\n") + 1
SHOWN = (
    CallSite("main.cu", 120, "void stitchcuda_stand_in::shown<float>(char const*, float const*, unsigned long)"),
    CallSite("main.cu", LINE, "scale(int, float const*, float*, float*, CUstream_st*)"),
    CallSite("main.cu", program()[: program().index("scale(4096")].count("\n") + 1, "main"),
)


@dataclass
class HostMachine(Machine):
    """What `scale` does in both versions."""

    new_shapes: list[frozenset[str] | None] = field(default_factory=list)

    def tools(self) -> Tools:
        def memory(*given: Any, **_: Any) -> GateResult:
            self.new_shapes.append(given[6])
            return GateResult("G4", GateState.PASSED, "", {"tools": {"memcheck": {}}})

        return replace(super().tools(), memory=memory)

    def _trace(self, stands: bool, milliseconds: int, printed: str, request: TraceRequest) -> Trace:
        calls: list[Call] = []
        ops: list[DeviceOp] = []
        at = MILLI
        fails = b"// FAILS" in self.texts[self.placed]

        def call(api: str, took: int = 1000, **more: Any) -> None:
            nonlocal at
            number = len(calls)
            calls.append(Call(number, api, at, at + took, correlation=number + 1, **more))
            kind = "kernel" if "kernel" in more else "copy" if more.get("copy_kind") in ("h2d", "d2h") else ""
            if kind and (request.mode == "full" or request.operations):
                name, size, way = more.get("kernel", ""), more.get("bytes", 0), more.get("copy_kind", "")
                ops.append(DeviceOp(kind, at, at + took, 0, number + 1, name, size, way))
            at += took

        def copy(kind: str, size: int, source: int, target: int, api: str = "cudaMemcpyAsync", **more: Any) -> None:
            call(api, bytes=size, copy_kind=kind, source=source, target=target, **more)

        call("cudaStreamCreateWithFlags")
        if stands:
            copy("h2h", BEGIN, 77, 77, "cudaMemcpy")
            call("cudaStreamSynchronize")
            copy("d2h", 64, 0x1000, 9, "cudaMemcpy")
            call("cudaDeviceSynchronize", milliseconds * MILLI)
            copy("h2d", 64, 9, 0x1000, "cudaMemcpy")
            copy("h2h", END, 77, 77, "cudaMemcpy")
        else:
            copy("h2h", BEGIN, 77, 77)
            call(
                "cudaLaunchKernel", milliseconds * MILLI, kernel="doubled", pointers=(0x1000,), status=9 if fails else 0
            )
            call("cudaLaunchKernel", kernel="added", pointers=(0x1000,))
            copy("d2h", 4, 0x1000, 9)
            call("cudaStreamSynchronize")
            copy("h2h", END, 77, 77)
        copy("h2d", 4, 55, 0x5000, sites=SHOWN)
        copy("d2h", 4, 0x5000, 55, sites=SHOWN)
        shown = len(calls) - 1
        reads = [
            HostRead(c.index, c.bytes, f"{c.bytes} {printed if c.index == shown else 'own'}")
            for c in calls
            if c.copy_kind == "d2h"
        ]
        if request.contents:
            reads = [
                replace(r, contents=struct.pack("<f", float(printed)) if r.call == shown else bytes(r.bytes))
                for r in reads
            ]
        return Trace(request.mode, 0, MILLI // 2, at, tuple(calls), tuple(ops), tuple(reads), "simulated")


@pytest.fixture
def machine(tmp_path: Path) -> HostMachine:
    (tmp_path / "p").mkdir()
    (tmp_path / "built").mkdir()
    return HostMachine(tmp_path / "built")


def judged(machine: HostMachine, definition: str, text: str = "", **contract: Any) -> Verdict:
    text = text or program()
    (machine.folder.parent / "p" / "main.cu").write_text(text)
    options = HubOptions(runs=12, scratch=machine.folder.parent / "scratch")
    bench = Bench(machine.tools(), Project(), replace(Contract(), **contract), options=options)
    baseline, stage = Version(machine.folder.parent / "p"), stage_of(text)
    with bench.trying(baseline, [stage]) as trial:
        assert not trial.measure().problem
        edits = edits_of(stage, text.encode(), text.encode(), definition.encode())
        return trial.judge(baseline.with_texts(edited({"main.cu": text.encode()}, edits)), definition.encode())


def states(verdict: Verdict) -> Mapping[str, GateState]:
    return {g.gate: g.state for g in verdict.gates}


def test_a_right_stage_is_accepted_whatever_it_launches_and_copies(machine: HostMachine) -> None:
    verdict = judged(machine, RIGHT)
    assert verdict.state is VerdictState.ACCEPTED, verdict.primary
    results = verdict.gate("G3")
    assert results is not None and results.evidence["compared"]["buffers"] == 1, "what it left on the host, and no more"
    assert verdict.speedup["cuda_span"].low > 2
    built = [text for text in machine.texts.values() if b"stitchcuda_span" in text]
    assert len(built) == 1 and b"#define scale stitchcuda_own_scale" in built[0]


def test_compute_sanitizer_looks_at_all_that_it_launches(machine: HostMachine) -> None:
    """Also at kernels of the program that it launches in a new shape: a trace shows it as one operation."""
    judged(machine, RIGHT)
    assert machine.new_shapes and all(shapes == frozenset({"doubled", "added"}) for shapes in machine.new_shapes)


def test_the_sources_are_read_as_the_user_has_them(machine: HostMachine) -> None:
    judged(machine, RIGHT)
    texts = [version.read("main.cu") for version in machine.analysed]
    assert texts and all(b"stitchcuda_launch" not in t and b"stitchcuda_span" not in t for t in texts)
    assert {b"stitchcuda_assumed_scale" in t for t in texts} == {True, False}


def test_other_results_on_the_host_are_rejected(machine: HostMachine) -> None:
    verdict = judged(machine, OTHER)
    assert states(verdict)["G1"] is GateState.PASSED and states(verdict)["G3"] is GateState.FAILED


def test_results_on_the_host_that_differ_by_rounding_say_so(machine: HostMachine) -> None:
    verdict = judged(machine, ROUNDED)
    assert verdict.primary is not None and "those of the reference but for rounding" in verdict.primary.issue
    allowed = judged(machine, ROUNDED, program(MARK.replace(" :", ' tolerance="rtol 1e-5" :')))
    assert allowed.state is VerdictState.ACCEPTED, allowed.primary


def test_a_hazard_is_told_before_anything_is_built(machine: HostMachine) -> None:
    verdict = judged(machine, RETURNS_EARLY)
    assert verdict.state is VerdictState.REJECTED and states(verdict)["G2"] is GateState.UNTESTED
    assert verdict.primary is not None and "the host reads" in verdict.primary.issue
    assert verdict.primary.fix == "keep the definition to what its declaration and the comment above it say"
    assert verdict.primary.path.endswith("main.cu") and verdict.primary.line > LINE


@pytest.mark.parametrize("late", [True, False])
def test_a_hazard_of_its_caller_is_not_held_against_it(machine: HostMachine, late: bool) -> None:
    """The program reads an output on another stream, or an input that is still being written, whoever the stage is."""
    main = MAIN.replace("&total, ", "")
    if late:
        main = main.replace(
            "sizeof(float), cudaMemcpyDeviceToHost, stream)", "sizeof(float), cudaMemcpyDeviceToHost, 0)"
        )
    else:
        main = main.replace(
            "cudaMemsetAsync(x, 0, 4096 * sizeof(float), stream)", "cudaMemsetAsync(x, 0, 4096 * sizeof(float), 0)"
        )
    text = program(
        MARK.replace("host=total[1] ", ""),
        STAGE.replace("float* total, ", ""),
        "void scale_cpu(int n, const float* x, float* y) {}\n",
        main,
    )
    definition = (
        "__global__ void doubled(int n, const float* from, float* to) { to[threadIdx.x] = from[threadIdx.x]; }\n\n"
    )
    definition += STAGE.replace("float* total, ", "").replace(
        ";", " {\n    doubled<<<16, 256, 0, stream>>>(n, x, y);\n}"
    )
    verdict = judged(machine, definition, text)
    assert states(verdict)["G0"] is GateState.PASSED and states(verdict)["G1"] is GateState.PASSED, verdict.primary
    told = verdict.gate("G0")
    assert told is not None and [f.what.partition(":")[0] for f in told.findings] == ["stream-race-raw"]
    assert told.findings[0].baseline and "`doubled`" in told.findings[0].what


def test_a_call_of_its_own_that_fails_is_seen(machine: HostMachine) -> None:
    verdict = judged(machine, FAILS)
    assert states(verdict)["G3"] is GateState.FAILED
    assert verdict.primary is not None and "cudaLaunchKernel fails with error 9" in verdict.primary.issue


def test_a_slower_stage_is_rejected(machine: HostMachine) -> None:
    assert states(judged(machine, SLOW))["G6"] is GateState.FAILED
