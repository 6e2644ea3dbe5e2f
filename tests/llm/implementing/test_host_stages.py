"""`stitch` on programs with missing host stages: a scripted endpoint writes them, everything but the GPU is real."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.agent import journal
from stitchcuda.agent.outcome import Kind, Stop
from stitchcuda.server.cli.dispatch import main

from tests.llm.answers import Answer, say_json
from tests.llm.implementing.bench import scripted_bench
from tests.llm.implementing.test_stitching import Played, function
from tests.pure.implementing import host_programs, programs
from tests.pure.implementing.host_programs import (
    KERNELS,
    LEAKS,
    MARK,
    OTHER_STREAM,
    RELEASED,
    RETURNS_EARLY,
    RIGHT,
    STAGE,
    program,
)

NO_BUILD = RIGHT.replace(RELEASED, "    int size = x;  // NO_BUILD\n" + RELEASED)
OTHER = RIGHT.replace("2 * from[i]", "3 * from[i]").replace("if (i < n)", "if (i < n)  /* OTHER_RESULTS */")


def stage(text: str, role: str = "coder") -> Answer:
    return function(text, name="scale", role=role)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def playing(*script: Answer, text: str = "", **more: Any) -> Played:
        return Played(tmp_path, script, text or program(), **more)

    return playing


def gates(played: Played, number: int) -> dict[str, Any]:
    made = journal.read(played.done.folder).made
    value = json.loads((played.done.folder / "verdicts" / f"{made[number].digest}.json").read_text())
    return {g["gate"]: g for g in value["gates"]}


def test_a_host_stage_that_is_right_is_accepted_in_one_round(play: Callable[..., Played]) -> None:
    played = play(stage(RIGHT))
    result = played.done.result
    assert (result.outcome, result.stopped) == (Kind.IMPROVED, Stop.NOTHING_LEFT), result.reason
    assert "`scale` is written, with the results of the reference" in result.reason
    done = MARK.replace("implement ", "implemented ")
    assert played.after == program().replace(f"{MARK}\n{STAGE}\n", f"{done}\n{STAGE}\n\n{RIGHT}\n")
    (unit,) = played.done.value["units"]
    assert [o["what"] for o in unit["proof"]] == [
        "no caller that relies on its declaration alone meets a hazard",
        "its results are those of `scale_cpu`",
    ]
    assert gates(played, 0)["G1"]["state"] == "passed", "the order is shown, and nothing is proved of values"
    assert gates(played, 0)["G1"]["evidence"]["accesses"] == {"total": ["write"], "x": ["read"], "y": ["read", "write"]}


def test_what_the_model_is_told(play: Callable[..., Played]) -> None:
    played = play(stage(RIGHT))
    (asked,) = played.endpoint.requests
    for part in (
        "Write the missing host stage `scale`",
        STAGE.rstrip(";"),
        "total[0] += y[i];",
        "scale(4096, x, y, &total, stream)",
        "and the sum of y in total",
        "Memory of the device: `x`, `y`. Memory of the host, pinned or not: `total` (1 elements).",
        "as if it were issued to the stream `stream`",
        "It returns when what it writes on the host is there",
        "the reference is not called",
        "// to be written",
    ):
        assert part in asked.text.replace('\\"', '"'), part


def test_a_compile_error_is_told_and_mended(play: Callable[..., Played]) -> None:
    played = play(stage(NO_BUILD), stage(RIGHT, "repairer"))
    assert played.done.result.outcome is Kind.IMPROVED
    done = MARK.replace("implement ", "implemented ")
    assert played.after == program().replace(f"{MARK}\n{STAGE}\n", f"{done}\n{STAGE}\n\n{RIGHT}\n"), "its kernels once"
    assert "identifier is undefined" in played.endpoint.requests[1].text
    assert gates(played, 0)["G2"]["state"] == "failed"


def test_other_results_are_told_and_mended(play: Callable[..., Played]) -> None:
    played = play(stage(OTHER), stage(RIGHT, "repairer"))
    assert played.done.result.outcome is Kind.IMPROVED and RIGHT in played.after
    assert "stdout line 1 is '3', not '2'" in played.endpoint.requests[1].text
    assert gates(played, 0)["G3"]["state"] == "failed"


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (RETURNS_EARLY, "the host reads"),
        (OTHER_STREAM, "on the default stream reads `x` while"),
        (LEAKS, "it never releases `sum`, which it allocates"),
    ],
)
def test_a_hazard_in_what_was_written_is_told_and_never_run(
    play: Callable[..., Played], definition: str, said: str
) -> None:
    played = play(stage(definition), stage(RIGHT, "repairer"))
    assert played.done.result.outcome is Kind.IMPROVED and RIGHT in played.after
    assert said in played.endpoint.requests[1].text.replace('\\"', '"')
    first = gates(played, 0)
    failed = [name for name, gate in first.items() if gate["state"] == "failed"]
    assert failed and set(failed) <= {"G0", "G1"} and first["G2"]["state"] == "untested"


def test_what_stays_hazardous_changes_nothing(play: Callable[..., Played]) -> None:
    script = [
        stage(RETURNS_EARLY),
        *(stage(RETURNS_EARLY.replace("32", str(k)), "repairer") for k in (64, 96, 128, 160, 192)),
    ]
    played = play(*script)
    assert (played.done.result.outcome, played.done.result.stopped) == (Kind.FAILED, Stop.GAVE_UP)
    assert "`scale` was not written" in played.done.result.reason and not played.done.after


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (stage("int more() { return 1; }\n" + RIGHT), "no device function"),
        (stage(RIGHT.replace("float* y,", "double* y,")), "are not those that are declared"),
        (stage(RIGHT.replace("    float* sum;", "    static float* sum;")), "would keep a value between calls"),
        (stage(RIGHT.replace("    float* sum;", "    scale_cpu(n, x, y, total);\n    float* sum;")), "is the reference on the CPU"),
        (stage(RIGHT.replace("    float* sum;", '    std::system("true");\n    float* sum;')), "system"),
        (stage(RIGHT.replace("    float* sum;", "    cudaLaunchHostFunc(stream, nullptr, nullptr);\n    float* sum;")), "cudaLaunchHostFunc"),
        (say_json({"why": "w", "edits": [{"kind": "function", "path": "main.cu", "function": "main", "text": "int main() { return 0; }"}]}), "main"),
        (say_json({"why": "w", "edits": [{"kind": "function", "path": "main.cu", "function": "scale_cpu", "text": "void scale_cpu(int n, const float* x, float* y, float* total) {}"}]}), "scale_cpu"),
    ],
)  # fmt: skip
def test_what_goes_beyond_the_stage_is_told_and_nothing_of_it_is_built(
    play: Callable[..., Played], answer: Answer, told: str
) -> None:
    played = play(answer, stage(RIGHT))
    assert played.done.result.outcome is Kind.IMPROVED, played.done.result.reason
    assert told in played.endpoint.requests[1].text
    assert len(played.bench.seen.definitions) == 1


def test_a_kernel_and_a_host_stage_are_written_one_after_the_other(play: Callable[..., Played]) -> None:
    """While the kernel is tried the host stage stands in for itself."""
    text = program(main="").replace("#include <cuda_runtime.h>\n", "#include <cuda_runtime.h>\n" + programs.REFERENCE)
    text += f"{programs.MARK}\n{programs.KERNEL}\n\n" + host_programs.MAIN.replace(
        "    cudaMemcpyAsync(&first", "    saxpy<<<16, 256, 0, stream>>>(4096, 2.0f, x, y);\n    cudaMemcpyAsync(&first"
    )
    played = play(stage(RIGHT), function(programs.RIGHT), text=text)
    assert played.done.result.outcome is Kind.IMPROVED, played.done.result.reason
    assert played.bench.seen.trials == [("scale", "saxpy"), ("saxpy",)]
    assert RIGHT in played.after and programs.RIGHT in played.after


def test_without_a_gpu_it_is_a_preview(play: Callable[..., Played]) -> None:
    played = play(stage(RIGHT), bench=scripted_bench(untested=("G3", "G4", "G6")))
    assert (played.done.result.outcome, played.done.result.stopped) == (Kind.NOT_VALIDATED, Stop.UNCHECKED)


def test_it_is_written_into_the_sources_and_taken_back(play: Callable[..., Played]) -> None:
    played = play(stage(RETURNS_EARLY), stage(RIGHT, "repairer"))
    assert main(["runs", "replay", played.done.folder.name]) == 0
    assert main(["runs", "apply", played.done.folder.name]) == 0
    assert played.file.read_text() == played.after
    assert main(["runs", "revert", played.done.folder.name]) == 0
    assert played.file.read_bytes() == played.before


def test_without_a_model_the_missing_stage_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "main.cu").write_text(program())
    assert main(["stitch", str(tmp_path / "p"), "--progress", "none"]) == 2
    assert "`scale` is declared and not defined: --proposer llm has it written" in capsys.readouterr().err
    assert KERNELS in RIGHT


def test_check_says_nothing_of_a_missing_host_stage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def codes(text: str) -> list[str]:
        (tmp_path / "main.cu").write_text(text)
        main(["check", str(tmp_path / "main.cu"), "--format", "json", "--select", "all"])
        value = json.loads(capsys.readouterr().out)
        assert not value["problems"]
        return [f["code"] for f in value["findings"]]

    assert codes(program()) == codes(program("// y = 2 * x"))
