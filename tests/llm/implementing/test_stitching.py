"""`stitch` on programs with missing kernels: a scripted endpoint writes them, everything but the GPU is real."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.agent import journal
from stitchcuda.agent.implementing import replaying
from stitchcuda.agent.invention import anchoring, confinement
from stitchcuda.agent.invention.asking import Asking
from stitchcuda.agent.invention.replaying import Remade
from stitchcuda.agent.model.accounting import Budget, Ledger
from stitchcuda.agent.model.client import Client
from stitchcuda.agent.model.endpoint import Api, Endpoint
from stitchcuda.agent.model.messages import Model
from stitchcuda.agent.model.sending import NeverSend
from stitchcuda.agent.outcome import Kind, Stop
from stitchcuda.agent.stitching import CannotStart, Request, Stitched, stitch
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.server.cli.dispatch import main

from tests.cli.made_up_machinery import RemoveWaits
from tests.llm.answers import Answer, say, say_json
from tests.llm.endpoint import ScriptedEndpoint
from tests.llm.implementing.bench import ScriptedBench, scripted_bench
from tests.llm.scenario import Told
from tests.llm.scripted_hub import ScriptedHub
from tests.pure.implementing.programs import KERNEL, MAIN, MARK, REFERENCE, RIGHT, program

HEAD = RIGHT.partition("\n")[0] + "\n"
WRONG = HEAD + "    y[threadIdx.x] = a;  // OTHER_RESULTS\n}"
SECOND = (
    program()
    .replace(
        MAIN,
        f"{MARK.replace('saxpy_cpu', 'scale_cpu')}\n__global__ void scale(int n, float* y);\n\n"
        + MAIN.replace("    cudaMemcpy(&first", "    scale<<<16, 256>>>(4096, y);\n    cudaMemcpy(&first"),
    )
    .replace("\nvoid saxpy_cpu", "\nvoid scale_cpu(int n, float* y) { y[0] *= 2; }\nvoid saxpy_cpu")
)
SCALE = "__global__ void scale(int n, float* y) {\n    if (threadIdx.x == 0 && blockIdx.x == 0) y[0] *= 2;\n}"


def function(text: str, *, name: str = "saxpy", role: str = "coder", path: str = "main.cu") -> Answer:
    """An answer of the coder or the repairer: one definition, whole."""
    edit = {"kind": "function", "path": path, "function": name, "text": text}
    return say_json({"why" if role == "coder" else "cause": "one thread per element", "edits": [edit]})


class Played:
    """A run on a program, and what came of it."""

    def __init__(
        self,
        folder: Path,
        script: Iterable[Answer],
        text: str = "",
        *,
        bench: ScriptedBench | None = None,
        hub: ScriptedHub | None = None,
        rules: bool = False,
        rounds: int = 12,
        never_send: tuple[NeverSend, ...] = (),
        cancelled: Callable[[], bool] = lambda: False,
        intent: str = "",
    ) -> None:
        self.root, self.told = folder / "p", Told()
        self.bench, self.hub = bench or scripted_bench(), hub or ScriptedHub(transforms=())
        self.root.mkdir(exist_ok=True)
        self.file = self.root / "main.cu"
        self.before = (text or program()).encode()
        self.file.write_bytes(self.before)
        (self.root / "kernels.cuh").write_bytes(b"")  # the scripted hub reads it
        with ScriptedEndpoint(script) as self.endpoint:
            end = Endpoint(self.endpoint.url, "scripted", api=Api.CHAT)

            def make(ledger: Ledger, *, cancelled: Callable[[], bool], tell: Callable[[str], None]) -> Model:
                return Client(end, "", ledger, cancelled=cancelled, tell=tell)

            asking = Asking(make, self.endpoint.url, "scripted", Budget(rounds=rounds), never_send=never_send)
            self.contracts: list[Contract] = []

            def making(
                project: Project, contract: Contract, tell: Callable[[str], None], cancelled: Callable[[], bool]
            ) -> ScriptedBench:
                self.contracts.append(contract)
                return self.bench

            request = Request(self.root, Contract(), Project(), rules=rules, asking=asking, intent=intent)
            self.done: Stitched = stitch(
                request,
                self.told,
                self.hub.machinery,
                bench=making,
                cancelled=cancelled,
            )
        assert self.file.read_bytes() == self.before, "the user's file is as it was"
        self.remade = self.made_again()
        assert not self.endpoint.unscripted, self.told.text

    def made_again(self) -> Remade:
        """The same from the record alone: in every test it must come out as it was."""
        record = self.record
        recorded = replaying.read(record)
        assert recorded is not None and recorded.ended
        assert [r.differing for r in journal.replay(record)] == [() for _ in record.made]
        remade = replaying.remake(record, recorded, self.bench.tools)
        assert (remade.difference, remade.reworded) == ("", ())
        return remade

    @property
    def record(self) -> journal.Record:
        return journal.read(self.done.folder)

    @property
    def after(self) -> str:
        return self.done.after["main.cu"].decode()


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def playing(*script: Answer, text: str = "", **more: Any) -> Played:
        threads = set(threading.enumerate())
        played = Played(tmp_path, script, text, **more)
        assert set(threading.enumerate()) <= threads
        return played

    return playing


def test_what_the_model_reads_in_the_request_is_there_before_the_bench(play: Callable[..., Played]) -> None:
    """It is one of the rounds, and no reply of the coder's."""
    field = {"field": "forbid", "value": "cuda-graph", "words": "cannot record launches"}
    reading = say_json({"added": [field], "questions": []})
    played = play(reading, function(WRONG), intent="our driver cannot record launches", rounds=2)
    assert played.contracts == [Contract(), played.done.result.contract]
    assert played.contracts[-1].forbid == ("cuda-graph",) and played.done.result.stopped is Stop.ROUNDS_SPENT
    assert played.done.value["model"]["rounds"] == 2
    recorded = anchoring.read(played.record)
    assert recorded is not None and anchoring.remake(played.record, recorded) == Remade(1, "")


def test_a_kernel_that_is_right_is_accepted_in_one_round(play: Callable[..., Played]) -> None:
    played = play(function(RIGHT))
    result = played.done.result
    assert (result.outcome, result.stopped) == (Kind.IMPROVED, Stop.NOTHING_LEFT), result.reason
    assert "`saxpy` is written, with the results of the reference; cuda_span 3.00 times as fast" in result.reason
    done = MARK.replace("implement ", "implemented ")
    assert played.after == program().replace(f"{MARK}\n{KERNEL}\n", f"{done}\n{KERNEL}\n\n{RIGHT}\n")
    (unit,) = played.done.value["units"]
    assert unit["transform"] == "implement" and "y = a*x + y" in unit["why"]
    assert [o["what"] for o in unit["proof"]] == [
        "it reads and writes what its declaration allows",
        "its results are those of `saxpy_cpu`",
    ]
    assert played.done.value["model"]["rounds"] == 1 and "main.cu" in played.done.value["model"]["files"]
    assert (played.done.folder / "model.jsonl").read_text().count("\n") == 1


def test_what_the_model_is_told(play: Callable[..., Played]) -> None:
    played = play(function(RIGHT))
    (asked,) = played.endpoint.requests
    for part in (
        "Write the missing kernel `saxpy`",
        KERNEL.rstrip(";"),
        "for (int i = 0; i < n; ++i) y[i] = a * x[i] + y[i];",
        "saxpy<<<16, 256>>>(4096, 2.0f, x, y)",
        "one thread per element",
        "__fmul_rn and __fadd_rn",
        "// to be written",
    ):
        assert part in asked.text.replace('\\"', '"'), part


def test_a_tolerance_of_the_marker_is_told_in_place_of_bitwise(play: Callable[..., Played]) -> None:
    played = play(function(RIGHT), text=program(MARK.replace(" :", ' tolerance="rtol 1e-5" :')))
    (asked,) = played.endpoint.requests
    assert "relative error of at most 1e-05" in asked.text and "must be bitwise those of the host" not in asked.text


def test_a_wrong_kernel_is_repaired(play: Callable[..., Played]) -> None:
    played = play(function(WRONG), function(RIGHT, role="repairer"))
    assert played.done.result.outcome is Kind.IMPROVED and RIGHT in played.after
    assert "stdout line 1 is '3', not '2'" in played.endpoint.requests[1].text
    assert "OTHER_RESULTS" in played.endpoint.requests[1].text, "the repairer sees what it wrote"
    assert all(str(played.root) not in request.text for request in played.endpoint.requests), "no path of this machine"
    assert len(played.record.units) == 2 and len(played.record.best) == 1


def test_a_kernel_that_stays_wrong_changes_nothing(play: Callable[..., Played]) -> None:
    script = [function(WRONG), *(function(WRONG.replace("= a", f"= {k}"), role="repairer") for k in range(1, 6))]
    played = play(*script)
    result = played.done.result
    assert (result.outcome, result.stopped, result.best) == (Kind.FAILED, Stop.GAVE_UP, None)
    assert "`saxpy` was not written" in result.reason and "stdout line 1" in result.reason
    assert not played.done.after


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (function(RIGHT, path="other.cu"), "There is no file 'other.cu'"),
        (function(RIGHT, name="other"), "defines no function 'other'"),
        (function("int more() { return 1; }\n" + RIGHT), "no device function"),
        (function("#include <fstream>\n" + RIGHT), "#include"),
        (function(RIGHT.replace("float a", "double a")), "are not those that are declared"),
        (function(HEAD + '    asm volatile("exit;");\n    y[0] = a;\n}'), "asm"),
        (say("I will not answer in JSON."), "JSON"),
        (
            say_json(
                {
                    "why": "w",
                    "edits": [{"kind": "replace", "path": "main.cu", "anchor": "4096, 2.0f", "text": "1, 2.0f"}],
                }
            ),
            "",
        ),
        (say_json({"why": "w", "edits": [{"kind": "new_file", "path": "k.cuh", "text": RIGHT}]}), ""),
    ],
)
def test_an_answer_that_cannot_be_used_is_told_and_asked_again(
    play: Callable[..., Played], answer: Answer, told: str
) -> None:
    played = play(answer, function(RIGHT))
    assert played.done.result.outcome is Kind.IMPROVED
    assert told in played.endpoint.requests[1].text
    assert len(played.bench.seen.definitions) == 1, "nothing of it was built or run"


def test_going_beyond_the_definition_twice_ends_it(play: Callable[..., Played]) -> None:
    beyond = say_json(
        {"why": "w", "edits": [{"kind": "replace", "path": "main.cu", "anchor": "4096, 2.0f", "text": "1, 2.0f"}]}
    )
    played = play(beyond, beyond)
    assert (played.done.result.outcome, played.done.result.stopped) == (Kind.FAILED, Stop.OUT_OF_SCOPE)
    assert not played.bench.seen.definitions


def test_answers_do_not_add_up_to_what_one_may_not_do(
    play: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "MOST_ADDED", 400)
    first = WRONG.replace("y[threadIdx", f"// {'x' * 150}\n    y[threadIdx")
    second = RIGHT.replace("{\n", "{\n    // " + "x" * 330 + "\n", 1)
    played = play(function(first), function(second, role="repairer"), function(RIGHT, role="repairer"))
    assert "more than 400" in played.endpoint.requests[2].text
    assert played.done.result.outcome is Kind.IMPROVED


def test_replies_that_cannot_be_read_end_it(play: Callable[..., Played]) -> None:
    played = play(say("no"), say("still no"), say("never"))
    assert played.done.result.stopped is Stop.UNREADABLE


def test_a_definition_that_the_declaration_does_not_allow_is_refused_by_the_analysis(
    play: Callable[..., Played],
) -> None:
    writes = HEAD + "    ((float *)x)[0] = 1;\n    y[threadIdx.x] = a;\n}"
    played = play(function(writes), function(RIGHT, role="repairer"))
    assert "it writes through `x`, which is declared const" in played.endpoint.requests[1].text
    first, _ = played.record.made
    (order,) = [
        g
        for g in json.loads((played.done.folder / "verdicts" / f"{first.digest}.json").read_text())["gates"]
        if g["gate"] == "G1"
    ]
    assert order["state"] == "failed"


def test_rounds_are_a_hard_budget(play: Callable[..., Played]) -> None:
    played = play(function(WRONG), rounds=1)
    assert played.done.result.stopped is Stop.ROUNDS_SPENT and len(played.endpoint.requests) == 1


def test_several_stages_are_written_one_after_the_other(play: Callable[..., Played]) -> None:
    played = play(function(RIGHT), function(SCALE, name="scale"), text=SECOND)
    result = played.done.result
    assert result.outcome is Kind.IMPROVED and "`saxpy`, `scale` are written" in result.reason
    assert played.bench.seen.trials == [("saxpy", "scale"), ("scale",)]
    assert RIGHT in played.after and SCALE in played.after and "stitchcuda: implement " not in played.after
    one, other = played.done.value["units"]
    assert other["parents"] == [one["id"]]


def test_a_second_stage_that_is_not_written_leaves_the_first(play: Callable[..., Played]) -> None:
    played = play(function(RIGHT), say("no"), say("no"), say("no"), text=SECOND)
    result = played.done.result
    assert (result.outcome, result.stopped) == (Kind.BEST_EFFORT, Stop.UNREADABLE)
    assert "`saxpy` is written" in result.reason and "`scale` was not written" in result.reason
    assert RIGHT in played.after and "implement reference=scale_cpu" in played.after


def test_rules_improve_the_implemented_program(play: Callable[..., Played]) -> None:
    waits = MAIN.replace("    saxpy<<<", "    wait();\n    saxpy<<<") + "// speed 1.5\n"
    hub = ScriptedHub(transforms=(RemoveWaits(rb"wait\(\);"),))
    played = play(
        function(RIGHT), text=program(main=waits, reference="void wait ();\n" + REFERENCE), rules=True, hub=hub
    )
    result = played.done.result
    (request,) = hub.requests
    assert RIGHT in request.texts["main.cu"].decode(), "the loop starts from the implemented program"
    assert request.asking is None and result.outcome is Kind.IMPROVED
    assert "`saxpy` is written, with the results of the reference; then latency 1.52 times as fast" in result.reason
    assert RIGHT in played.after and "wait();\n    saxpy" not in played.after
    one, other = played.done.value["units"]
    assert (one["transform"], other["parents"]) == ("implement", [one["id"]])
    assert [len(m.units) for m in played.record.made] == [1, 2]


def test_where_rules_find_nothing_the_implemented_program_stays(play: Callable[..., Played]) -> None:
    played = play(function(RIGHT), rules=True)
    assert played.done.result.outcome is Kind.IMPROVED and RIGHT in played.after
    assert "; then no change is both possible and proved safe" in played.done.result.reason


def test_without_a_gpu_it_is_a_preview(play: Callable[..., Played]) -> None:
    played = play(function(RIGHT), bench=scripted_bench(untested=("G3", "G4", "G6")))
    result = played.done.result
    assert (result.outcome, result.stopped) == (Kind.NOT_VALIDATED, Stop.UNCHECKED)
    assert "`saxpy` is written: a preview, not checked here: G3" in result.reason and RIGHT in played.after


def test_a_reference_that_does_not_run_is_told_before_anybody_is_asked(play: Callable[..., Played]) -> None:
    played = play(bench=scripted_bench(problem="the original was ended by signal 6"))
    assert (
        played.done.result.outcome is Kind.FAILED and played.done.result.reason == "the original was ended by signal 6"
    )
    assert not played.endpoint.requests


def test_cancelling_ends_it(play: Callable[..., Played]) -> None:
    played = play(cancelled=lambda: True)
    assert played.done.result.stopped is Stop.CANCELLED and not played.endpoint.requests


def test_a_file_that_may_not_be_sent_is_told(play: Callable[..., Played], tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"main\.cu: `saxpy` is to be written there, and the file may not be sent"):
        play(never_send=(NeverSend(("*.cu",)),))


# ------------------------------------------------------------------------------------------------------ the command line


def told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, *words: str
) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "main.cu").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["stitch", "p", "--progress", "none", *words]) == 2
    assert not (tmp_path / "cache" / "stitchcuda" / "runs").exists(), "no run was begun"
    return capsys.readouterr().err


def test_without_a_model_the_missing_stage_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = told(capsys, tmp_path, monkeypatch, program())
    assert "p/main.cu:7: `saxpy` is declared and not defined: --proposer llm has it written by a language model" in said


def test_a_marker_with_a_mistake_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "p/main.cu:7: unknown key 'output'" in told(
        capsys, tmp_path, monkeypatch, program(MARK.replace("outputs", "output"))
    )


def test_runs_replay_makes_a_kernel_again(play: Callable[..., Played], capsys: pytest.CaptureFixture[str]) -> None:
    played = play(function(WRONG), function(RIGHT, role="repairer"))
    assert played.remade.decisions == 2
    assert main(["runs", "replay", played.done.folder.name]) == 0
    assert "decisions of the model's part: 2 as recorded" in capsys.readouterr().out


def test_another_verdict_in_the_record_is_seen(play: Callable[..., Played], capsys: pytest.CaptureFixture[str]) -> None:
    played = play(function(WRONG), function(RIGHT, role="repairer"))
    wrong, right = (played.done.folder / "verdicts" / f"{m.digest}.json" for m in played.record.made)
    wrong.write_bytes(right.read_bytes())
    assert main(["runs", "replay", played.done.folder.name]) == 1
    assert "differs: version 2: recorded" in capsys.readouterr().out


def test_the_kernel_is_written_into_the_sources_and_taken_back(play: Callable[..., Played]) -> None:
    played = play(function(RIGHT))
    assert main(["runs", "apply", played.done.folder.name]) == 0
    assert played.file.read_text() == played.after
    assert main(["runs", "revert", played.done.folder.name]) == 0
    assert played.file.read_bytes() == played.before


def test_check_and_contract_say_nothing_of_a_missing_kernel(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def codes(text: str) -> list[str]:
        (tmp_path / "main.cu").write_text(text)
        main(["check", str(tmp_path / "main.cu"), "--format", "json", "--select", "all"])
        value: Mapping[str, Any] = json.loads(capsys.readouterr().out)
        assert not value["problems"]
        return [f["code"] for f in value["findings"]]

    assert codes(program()) == codes(program("// y = a*x + y"))
