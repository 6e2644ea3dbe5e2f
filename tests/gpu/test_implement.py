"""A missing kernel and a missing host stage on a real GPU: a scripted endpoint writes them, everything else is what users get. One run
shows both: a definition that computes something else is rejected by its results, the right one is accepted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.agent import journal
from stitchcuda.agent.implementing.real_bench import real_bench
from stitchcuda.agent.invention.asking import Asking
from stitchcuda.agent.machinery import real_machinery
from stitchcuda.agent.model.accounting import Budget, Ledger
from stitchcuda.agent.model.client import Client
from stitchcuda.agent.model.endpoint import Api, Endpoint
from stitchcuda.agent.model.messages import Model
from stitchcuda.agent.outcome import Kind
from stitchcuda.agent.stitching import Request, Stitched, stitch
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.server.cli.dispatch import main

from tests.llm.answers import Answer, say_json
from tests.llm.endpoint import ScriptedEndpoint
from tests.llm.scenario import Told

pytestmark = [pytest.mark.gpu, pytest.mark.nvcc]

PROGRAM = Path(__file__).parent / "programs" / "missing.cu"
HEAD = """\
__global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
"""
RIGHT = HEAD + "    if (i < n) y[i] = __fadd_rn(__fmul_rn(a, x[i]), y[i]);\n}"
FUSED = HEAD + "    if (i < n) y[i] = a * x[i] + y[i];\n}"
FORGETS = HEAD + "    if (i < n) y[i] = a * x[i];\n}"
LEAVES = HEAD + "    if (i <= n) y[i] = __fadd_rn(__fmul_rn(a, x[i]), y[i]);\n}"


STAGE_PROGRAM = PROGRAM.parent / "missing_stage.cu"
STAGE = """\
__global__ void normalise_rows(const float* x, float* y, float* largest, int columns) {
    __shared__ float most[256];
    const float* row = x + static_cast<size_t>(blockIdx.x) * columns;
    float own = row[0];
    for (int k = threadIdx.x; k < columns; k += blockDim.x) own = fmaxf(own, row[k]);
    most[threadIdx.x] = own;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) most[threadIdx.x] = fmaxf(most[threadIdx.x], most[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0) largest[blockIdx.x] = most[0];
    float* out = y + static_cast<size_t>(blockIdx.x) * columns;
    for (int k = threadIdx.x; k < columns; k += blockDim.x) out[k] = row[k] / most[0];
}

cudaError_t normalise(const float* x, float* y, float* largest, int rows, int columns, cudaStream_t stream) {
    float* most = nullptr;
    CHECK(cudaMallocAsync(&most, rows * sizeof(float), stream));
    normalise_rows<<<rows, 256, 0, stream>>>(x, y, most, columns);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(largest, most, rows * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(most, stream));
    CHECK(cudaStreamSynchronize(stream));
    return cudaSuccess;
}"""
STAGE_EARLY = STAGE.replace("    CHECK(cudaStreamSynchronize(stream));\n", "")
STAGE_WRONG_ON_DEVICE = STAGE.replace("row[k] / most[0];", "row[k] - most[0];")
STAGE_WRONG_ON_HOST = STAGE.replace(
    "largest[blockIdx.x] = most[0]", "largest[blockIdx.x] = most[0] + (blockIdx.x == 7)"
)


def answer(text: str, role: str, name: str, path: str) -> Answer:
    edit = {"kind": "function", "path": path, "function": name, "text": text}
    return say_json({"why" if role == "coder" else "cause": "one thread per element", "edits": [edit]})


def implemented(folder: Path, definitions: Sequence[str], program: Path = PROGRAM, name: str = "saxpy") -> Stitched:
    """The first definition is the coder's answer, the others the repairer's."""
    shutil.copy(program, folder)
    script = [
        answer(text, "repairer" if number else "coder", name, program.name) for number, text in enumerate(definitions)
    ]
    told = Told()
    with ScriptedEndpoint(script) as endpoint:
        end = Endpoint(endpoint.url, "scripted", api=Api.CHAT)

        def make(ledger: Ledger, *, cancelled: Callable[[], bool], tell: Callable[[str], None]) -> Model:
            return Client(end, "", ledger, cancelled=cancelled, tell=tell)

        asking = Asking(make, endpoint.url, "scripted", Budget(rounds=len(script)))
        request = Request(folder / program.name, Contract(), Project(), rules=False, asking=asking)
        done = stitch(request, told, real_machinery, bench=real_bench)
        print(told.text)
        assert not endpoint.unscripted
    assert (folder / program.name).read_bytes() == program.read_bytes()
    return done


def verdicts(done: Stitched) -> list[Any]:
    """In order; the states and reasons of the gates by name."""
    made = journal.read(done.folder).made
    return [json.loads((done.folder / "verdicts" / f"{m.digest}.json").read_text()) for m in made]


def gates(verdict: Any) -> dict[str, str]:
    return {g["gate"]: g["state"] for g in verdict["gates"]}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_other_results_are_rejected_and_the_right_kernel_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = implemented(tmp_path, [FORGETS, RIGHT])
    wrong, right = verdicts(done)
    assert wrong["state"] == "rejected" and gates(wrong)["G3"] == "failed"
    assert (gates(wrong)["G1"], gates(wrong)["G2"]) == ("passed", "passed"), "nothing but the values speaks against it"
    assert right["state"] == "accepted", right
    assert {name: gates(right)[name] for name in ("G0", "G1", "G2", "G3", "G4")} == dict.fromkeys(
        ("G0", "G1", "G2", "G3", "G4"), "passed"
    )
    compared = next(g for g in right["gates"] if g["gate"] == "G3")["evidence"]["compared"]
    assert compared["buffers"] == 2, "what the program reads back, and nothing of what stood in for the kernel"
    assert right["speedup"]["cuda_span"][0] > 1.5, "the reference copies everything to the host and back"
    assert done.result.outcome is Kind.IMPROVED and RIGHT in done.after["missing.cu"].decode()
    assert main(["runs", "apply", done.folder.name]) == 0
    assert (tmp_path / "missing.cu").read_bytes() == done.after["missing.cu"]
    capsys.readouterr()


def test_rounding_is_told_as_such_and_an_access_beyond_the_buffer_is_found(tmp_path: Path) -> None:
    done = implemented(tmp_path, [FUSED, LEAVES])
    rounded, beyond = verdicts(done)
    assert gates(rounded)["G3"] == "failed" and "but for rounding" in rounded["primary"]["issue"]
    assert 'tolerance="rtol 1e-06"' in rounded["primary"]["fix"]
    assert gates(beyond)["G4"] == "failed" and "out of bounds" in beyond["primary"]["issue"]
    assert done.result.outcome is Kind.FAILED and not done.after


def test_a_host_stage_is_held_to_its_declaration_and_to_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that returns before its output on the host is there is never built; one that leaves something else on the host or on the
    device is told by its results; the right one is accepted."""
    script = [STAGE_EARLY, STAGE_WRONG_ON_HOST, STAGE_WRONG_ON_DEVICE, STAGE]
    done = implemented(tmp_path, script, STAGE_PROGRAM, "normalise")
    early, on_host, on_device, right = verdicts(done)
    assert (
        early["state"] == "rejected" and gates(early)["G2"] == "untested" and "host reads" in early["primary"]["issue"]
    )
    for wrong in (on_host, on_device):
        assert wrong["state"] == "rejected" and gates(wrong)["G3"] == "failed", wrong
        assert (gates(wrong)["G0"], gates(wrong)["G1"], gates(wrong)["G2"]) == ("passed", "passed", "passed")
    assert right["state"] == "accepted", right
    assert {gates(right)[name] for name in ("G0", "G1", "G2", "G3", "G4")} == {"passed"}
    compared = next(g for g in right["gates"] if g["gate"] == "G3")["evidence"]["compared"]
    assert compared["buffers"] == 4, "what each of three calls left on the host, and what the program reads back"
    assert right["speedup"]["cuda_span"][0] > 1.2, "the reference copies everything to the host and back"
    assert done.result.outcome is Kind.IMPROVED and STAGE in done.after["missing_stage.cu"].decode()
    assert main(["runs", "apply", done.folder.name]) == 0
    assert (tmp_path / "missing_stage.cu").read_bytes() == done.after["missing_stage.cu"]
    capsys.readouterr()
