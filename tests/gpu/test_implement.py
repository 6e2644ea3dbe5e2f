"""A missing kernel on a real GPU: a scripted endpoint writes it, everything else is what users get. One run shows both: a definition
that computes something else is rejected by its results, the right one is accepted."""

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


def answer(text: str, role: str) -> Answer:
    edit = {"kind": "function", "path": "missing.cu", "function": "saxpy", "text": text}
    return say_json({"why" if role == "coder" else "cause": "one thread per element", "edits": [edit]})


def implemented(folder: Path, definitions: Sequence[str]) -> Stitched:
    """The first definition is the coder's answer, the others the repairer's."""
    shutil.copy(PROGRAM, folder)
    script = [answer(text, "repairer" if number else "coder") for number, text in enumerate(definitions)]
    told = Told()
    with ScriptedEndpoint(script) as endpoint:
        end = Endpoint(endpoint.url, "scripted", api=Api.CHAT)

        def make(ledger: Ledger, *, cancelled: Callable[[], bool], tell: Callable[[str], None]) -> Model:
            return Client(end, "", ledger, cancelled=cancelled, tell=tell)

        asking = Asking(make, endpoint.url, "scripted", Budget(rounds=len(script)))
        request = Request(folder / PROGRAM.name, Contract(), Project(), rules=False, asking=asking)
        done = stitch(request, told, real_machinery, bench=real_bench)
        print(told.text)
        assert not endpoint.unscripted
    assert (folder / PROGRAM.name).read_bytes() == PROGRAM.read_bytes()
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
