"""The bench: the real hub with the reference version as the original.

SIMULATED: builds and runs. A version with a stand-in leaves the trace that `stand_in.cuh` makes, one that defines the kernel that
of a launch; what it prints and reads back follows from the definition's text.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.agent.implementing.bench import Bench, Trial
from stitchcuda.agent.implementing.placing import edits_of
from stitchcuda.agent.implementing.reference import BEGIN, END
from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.agent.versions import edited
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.building.model import BuildFailed, Built
from stitchcuda.gpu_validate.gates.g0_structure import g0
from stitchcuda.gpu_validate.hub import HubOptions
from stitchcuda.gpu_validate.machine_state import MachineState
from stitchcuda.gpu_validate.processes import Ended
from stitchcuda.gpu_validate.tools import Tools
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, HostRead, Trace
from stitchcuda.gpu_validate.trace.session import TraceRequest
from stitchcuda.gpu_validate.verdict import GateResult, GateState, Verdict, VerdictState
from stitchcuda.gpu_validate.version import Version

from tests.pure.implementing.programs import RIGHT, program, stage_of

HEAD = RIGHT.partition("\n")[0] + "\n"
ROUNDED = HEAD + "    y[threadIdx.x] = a;  // ROUNDED\n}"
OTHER = HEAD + "    y[threadIdx.x] = a;  // OTHER\n}"
SLOW = HEAD + "    y[threadIdx.x] = a;  // SLOW\n}"
SAME_SPEED = HEAD + "    y[threadIdx.x] = a;  // NO_GAIN\n}"
MILLI = 1_000_000
READ = program()[: program().index("cudaMemcpy(&first")].count("\n") + 1  # the line that reads the result back


@dataclass
class Machine:
    """What is built and run. `fails` is what a stand-in says before it gives up."""

    folder: Path
    fails: str = ""
    texts: dict[str, bytes] = field(default_factory=dict)  # by the name of a build
    placed: str = ""
    analysed: list[Version] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    def tools(self) -> Tools:
        def looked(version: Version) -> Any:
            self.analysed.append(version)
            return analyse(version)

        def order(*_: object) -> GateResult:
            raise AssertionError("the order of a stage is decided by its declaration")

        return Tools(
            analyse=looked,
            structure=g0,
            order=order,
            builder=lambda *_, **__: _Place(self),
            build=lambda _, after: GateResult("G2", GateState.PASSED),
            memory=lambda *_, **__: GateResult("G4", GateState.PASSED, "", {"tools": {"memcheck": {}}}),
            run_traced=self.run_traced,
            library=lambda: Path("simulated"),
            gpu=lambda: "",
            machine=lambda: MachineState(sm_clock=1980, source="simulated"),
        )

    def build(self, version: Version) -> Built | BuildFailed:
        self.texts[version.digest] = version.read("main.cu")
        return Built(version.digest, self.folder, ("./main",), 0.1, program_digest=version.digest)

    @contextmanager
    def put(self, built: Built) -> Iterator[Path]:
        self.placed = built.name
        yield self.folder

    def run_traced(self, command: Sequence[str], *, request: TraceRequest, **_: Any) -> tuple[Ended, Trace | None]:
        text = self.texts[self.placed]
        stands = b"stitchcuda_launch" in text
        self.runs.append("reference" if stands else "version")
        if stands and self.fails:
            return Ended(
                None, 6, b"", f"stitchcuda: the reference cannot stand for `saxpy`: {self.fails}\n".encode(), 0.1
            ), None
        printed = b"3.000001" if b"// ROUNDED" in text else b"7" if b"// OTHER" in text else b"3"
        size = 20 if stands or b"// NO_GAIN" in text else 90 if b"// SLOW" in text else 2
        trace = self._trace(stands, size, printed.decode(), request)
        return Ended(0, None, b"first " + printed + b"\n", b"", 0.05 + size / 1000), trace

    def _trace(self, stands: bool, milliseconds: int, printed: str, request: TraceRequest) -> Trace:
        calls: list[Call] = []
        ops: list[DeviceOp] = []
        at = MILLI

        def call(api: str, took: int = 1000, **more: Any) -> None:
            nonlocal at
            number = len(calls)
            calls.append(Call(number, api, at, at + took, correlation=number + 1, **more))
            kind = "kernel" if "kernel" in more else "copy" if more.get("copy_kind") in ("h2d", "d2h") else ""
            if kind and (request.mode == "full" or request.operations):
                ops.append(
                    DeviceOp(
                        kind,
                        at,
                        at + took,
                        0,
                        number + 1,
                        more.get("kernel", ""),
                        more.get("bytes", 0),
                        more.get("copy_kind", ""),
                    )
                )
            at += took

        def copy(kind: str, size: int, source: int, target: int) -> None:
            call("cudaMemcpy", bytes=size, copy_kind=kind, source=source, target=target)

        copy("h2d", 64, 9, 0x1000)
        if stands:
            copy("h2h", BEGIN, 77, 77)
            call("cudaStreamSynchronize")
            copy("d2h", 64, 0x1000, 9)
            call("cudaDeviceSynchronize", milliseconds * MILLI)
            copy("h2d", 64, 9, 0x1000)
            copy("h2h", END, 77, 77)
        else:
            call("cudaLaunchKernel", milliseconds * MILLI, kernel="saxpy", pointers=(0x1000,))
        copy("d2h", 4, 0x1000, 9)
        calls[-1] = replace(calls[-1], sites=(CallSite("main.cu", READ, "main"),))
        reads = [
            HostRead(c.index, c.bytes, f"{c.bytes} {printed if c.bytes == 4 else 'own'}")
            for c in calls
            if c.copy_kind == "d2h"
        ]
        if request.contents:
            reads = [
                replace(r, contents=struct.pack("<f", float(printed)) if r.bytes == 4 else bytes(64)) for r in reads
            ]
        return Trace(request.mode, 0, MILLI // 2, at, tuple(calls), tuple(ops), tuple(reads), "simulated")


class _Place:
    """The builder of a Machine."""

    def __init__(self, machine: Machine) -> None:
        self.build = machine.build
        self.placed = machine.put


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "main.cu").write_text(program())
    (tmp_path / "built").mkdir()
    return Machine(tmp_path / "built")


@contextmanager
def trying(machine: Machine, **contract: Any) -> Iterator[tuple[Trial, Version, Stage]]:
    scratch = machine.folder.parent / "scratch"
    bench = Bench(
        machine.tools(), Project(), replace(Contract(), **contract), options=HubOptions(runs=12, scratch=scratch)
    )
    baseline, stage = Version(machine.folder.parent / "p"), stage_of(program())
    with bench.trying(baseline, [stage]) as trial:
        yield trial, baseline, stage
    assert not list(scratch.iterdir())


def judged(machine: Machine, definition: str, **contract: Any) -> Verdict:
    with trying(machine, **contract) as (trial, baseline, stage):
        assert not trial.measure().problem
        text = baseline.read("main.cu")
        edits = edits_of(stage, text, text, definition.encode())
        return trial.judge(baseline.with_texts(edited({"main.cu": text}, edits)), definition.encode())


def states(verdict: Verdict) -> Mapping[str, GateState]:
    return {g.gate: g.state for g in verdict.gates}


def test_a_right_kernel_is_accepted_though_it_copies_nothing(machine: Machine) -> None:
    verdict = judged(machine, RIGHT)
    assert verdict.state is VerdictState.ACCEPTED, verdict.primary
    results = verdict.gate("G3")
    assert results is not None and results.evidence["compared"]["buffers"] == 1, (
        "the stand-in's own copies are no results"
    )
    assert verdict.speedup["cuda_span"].low > 2
    assert {"reference", "version"} == set(machine.runs)


def test_structure_and_order_are_those_of_the_users_sources(machine: Machine) -> None:
    judged(machine, RIGHT)
    assert machine.analysed and all(b"stitchcuda_launch" not in v.read("main.cu") for v in machine.analysed)


def test_other_results_are_rejected_by_the_results(machine: Machine) -> None:
    verdict = judged(machine, OTHER)
    assert states(verdict)["G1"] is GateState.PASSED and states(verdict)["G3"] is GateState.FAILED
    assert verdict.primary is not None and "rounding" not in verdict.primary.issue


def test_results_that_differ_by_rounding_say_so_with_a_tolerance(machine: Machine) -> None:
    verdict = judged(machine, ROUNDED)
    assert verdict.state is VerdictState.REJECTED and verdict.primary is not None
    assert "those of the reference but for rounding" in verdict.primary.issue
    assert 'tolerance="rtol 1e-0' in verdict.primary.fix


def test_a_right_kernel_without_a_gain_is_accepted_and_a_slower_one_is_not(machine: Machine) -> None:
    verdict = judged(machine, SAME_SPEED)
    assert (verdict.state, states(verdict)["G6"]) == (VerdictState.ACCEPTED, GateState.INCONCLUSIVE)
    slower = judged(machine, SLOW)
    assert (slower.state, states(slower)["G6"]) == (VerdictState.REJECTED, GateState.FAILED)


def test_why_a_reference_cannot_run_is_told(machine: Machine) -> None:
    machine.fails = "it is launched into a CUDA graph"
    with trying(machine) as (trial, _, _):
        problem = trial.measure().problem
    assert "with the reference in place of what is missing, the original was ended by signal 6" in problem
    assert "(the reference cannot stand for `saxpy`: it is launched into a CUDA graph)" in problem
