"""`stitchcuda stitch` as a user sees it, with made-up machinery; what the real parts do is tested where they are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from stitchcuda.agent import journal, stitching
from stitchcuda.gpu_validate.trace.model import Call, DeviceOp, Trace
from stitchcuda.gpu_validate.trace.store import from_json
from stitchcuda.server.cli import stitch
from stitchcuda.server.cli.dispatch import main

from tests.cli.made_up_machinery import MadeUp
from tests.server.test_session import RACE

TEXT = "#include <cuda_runtime.h>\r\nint main() {\r\n    /* 延迟 */ wait();\r\n    wait(); // needed\r\n}\r\n"
AFTER = "#include <cuda_runtime.h>\r\nint main() {\r\n    wait(); // needed\r\n}\r\n"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeUp:
    """Also a program in `p` of the current folder, and a cache folder of its own."""
    made = MadeUp()
    monkeypatch.setattr(stitch, "real_machinery", made.machinery)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("p").mkdir()
    Path("p/a.cu").write_bytes(TEXT.encode())
    return made


def text() -> str:
    return Path("p/a.cu").read_bytes().decode()


def test_json_says_everything_and_nothing_is_written(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stitch", "p", "--intent", "latency under 8 ms", "--format", "json", "--progress", "none"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["schema"] == 1 and value["contract"]["bounds"][0]["value"] == 0.008
    assert value["outcome"] == "improved" and value["verdict"]["state"] == "accepted"
    (unit,) = value["units"]
    assert unit["edits"] == [
        {"path": "p/a.cu", "start": {"line": 3, "column": 1}, "end": {"line": 4, "column": 1}, "text": ""}
    ]
    assert unit["proof"] == [{"what": "nobody relies on it", "shown_by": "the order of the program"}]
    assert value["best"]["units"] == [unit["id"]] and unit["parents"] == []
    assert value["refused"] == [
        {"transform": "remove-wait", "path": "p/a.cu", "line": 4, "reason": "the host reads `x`"}
    ]
    assert text() == TEXT
    record = journal.read(Path(value["run_dir"]))
    assert record.result is not None and record.result["outcome"] == "improved"
    assert record.best == (unit["id"],) and not any(r.differing for r in journal.replay(record))
    assert record.files == {"a.cu": journal.text_digest(TEXT.encode())}


def test_a_program_without_cuda_is_told_where_it_was_looked_for(
    made: MadeUp, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plain").mkdir()
    for name in ("a.cpp", "b.cpp", "c.c", "d.h"):
        Path("plain", name).write_text("int f();\n")
    for path, named in (("plain", "a.cpp, b.cpp, c.c and 1 more"), ("plain/b.cpp", "b.cpp")):
        assert main(["stitch", path]) == 2
        assert f"{path}: no CUDA was found in {named}: name the folder, or the file" in capsys.readouterr().err
    assert not made.requests
    Path("plain", "k.cu").write_text("__global__ void k() {}\n")
    assert main(["stitch", "plain/k.cu", "--progress", "none"]) == 0
    assert "proved safe: no launch, copy or other call of CUDA is reached in k.cu\n" in capsys.readouterr().out


def test_errors_of_the_program_are_told_beside_what_became_faster(
    made: MadeUp, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("p/race.cu").write_text(RACE)
    told = "check reports 1 error in this program (p/race.cu:17 stream-race-raw), which stitching leaves as it is: stitchcuda check p"
    assert main(["stitch", "p", "--progress", "none"]) == 0
    assert f"\nnote: {told}\n" in capsys.readouterr().out
    assert main(["stitch", "p", "--progress", "none", "--format", "json"]) == 0
    shown = capsys.readouterr()
    assert [(e["code"], e["path"], e["line"]) for e in json.loads(shown.out)["errors"]] == [
        ("stream-race-raw", "p/race.cu", 17)
    ]
    assert told in shown.err
    Path("stitchcuda.toml").write_text('[check]\nignore = ["stream-race-raw"]\n')
    assert main(["stitch", "p", "--progress", "none"]) == 0
    assert "check reports" not in capsys.readouterr().out


def test_how_the_original_ran_is_kept_unless_it_is_too_much(
    made: MadeUp, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made.trace = Trace(
        "full", 0, 5, 90, (Call(0, "cudaDeviceSynchronize", 10, 20),), (DeviceOp("kernel", 12, 18, name="k"),)
    )
    assert main(["stitch", "p", "--progress", "none"]) == 0
    kept = journal.find(None).folder / "trace.json"
    assert from_json(json.loads(kept.read_bytes())) == made.trace
    capsys.readouterr()
    assert main(["graph", "p/a.cu", "--trace", kept.parent.name]) == 0
    monkeypatch.setattr(stitching, "MOST_TRACED", 1)
    assert main(["stitch", "p", "--progress", "none"]) == 0
    assert not (journal.find(None).folder / "trace.json").exists()


def test_the_page_shows_verdict_units_refusals_and_the_change(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stitch", "p"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("improved: latency 1.50 times as fast (1.40 to 1.60)")
    for gate in range(8):
        assert f"  G{gate} " in out
    assert "p/a.cu:3: remove-wait: nothing relies on this wait" in out
    assert "p/a.cu:4: remove-wait: the host reads `x`" in out
    assert "-    /* 延迟 */ wait();" in out and "kept in " in out


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
@pytest.mark.parametrize(
    ("path", "start", "where"), [("p", ".", "."), (".", "p", "p"), ("../p", "q", "p"), ("./p/a.cu", ".", ".")]
)
def test_the_diff_can_be_applied(
    made: MadeUp, capfd: pytest.CaptureFixture[str], tmp_path: Path, path: str, start: str, where: str
) -> None:
    """Where the command was started, or in the program's folder when that lies elsewhere."""
    (tmp_path / "q").mkdir()
    os.chdir(tmp_path / start)
    assert main(["stitch", path, "--diff"]) == 0
    os.chdir(tmp_path)
    out = capfd.readouterr().out
    subprocess.run(["git", "apply", "-"], input=out.encode(), check=True, cwd=where)
    assert text() == AFTER


def test_write_changes_the_files_and_revert_gives_them_back(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stitch", "p", "--write"]) == 0
    assert text() == AFTER and "wrote 1 file in p" in capsys.readouterr().err
    assert main(["runs", "revert"]) == 0
    assert text() == TEXT


def test_out_takes_a_new_place(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stitch", "p", "--out", "o"]) == 0
    assert (text(), Path("o/a.cu").read_bytes().decode()) == (TEXT, AFTER)
    assert main(["stitch", "p", "--out", "o"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["stitch", "p", "--out", "p/o"]) == 2


def test_a_file_that_changes_on_the_way_is_not_overwritten(
    made: MadeUp, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("p/b.cu").write_text("wait();\n")
    real = stitch.run_request

    def edited(*arguments: object, **named: object) -> object:
        done = real(*arguments, **named)  # type: ignore[arg-type]
        Path("p/b.cu").write_text("wait(); // mine\n")
        return done

    monkeypatch.setattr(stitch, "run_request", edited)
    assert main(["stitch", "p", "--write"]) == 2
    assert "p/b.cu: has been changed since it was read; nothing was written" in capsys.readouterr().err
    assert text() == TEXT  # the other file neither


def test_a_preview_is_labelled_and_not_written(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    made.untested = ("G3", "G4", "G6")
    assert main(["stitch", "p", "--write"]) == 0
    done = capsys.readouterr()
    missing = "G3 equivalence, G4 memory and races, G6 latency (this machine has no GPU)"
    assert done.out.startswith(f"not_validated: a preview, not checked here: {missing}")
    assert "not written" in done.err and text() == TEXT


def test_an_original_that_does_not_build_is_1(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    made.problem = "the original does not build: a.cu:1: no such file"
    assert main(["stitch", "p"]) == 1
    assert capsys.readouterr().out.startswith(f"failed: {made.problem}")


def test_no_safe_change_is_an_answer(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    made.keep = b"/* "
    assert main(["stitch", "p", "--write"]) == 0
    done = capsys.readouterr()
    assert done.out.startswith("no_safe_change: every proposed change was rejected")
    assert "a.cu:3: remove-wait: G3 failed: other results" in done.out
    assert "nothing to write" in done.err


def test_the_project_file_says_what_is_wanted(made: MadeUp) -> None:
    Path("p/stitchcuda.toml").write_text(
        '[contract]\nintent = "延迟低于8ms"\nscope = ["main"]\n[run]\ntimeout = 7\n', encoding="utf-8"
    )
    assert main(["stitch", "p"]) == 0
    assert main(["stitch", "p", "--intent", "halve the latency", "--scope", "wait"]) == 0
    first, second = made.requests
    assert first.contract.bounds[0].metric == "latency" and first.contract.scope == ("main",)
    assert first.project.run.timeout == 7
    assert second.contract.bounds[0].metric == "speedup" and second.contract.scope == ("wait",)


def test_questions_are_asked(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stitch", "p", "--intent", "latency under 8 ms with tolerance 1e-3"]) == 0
    assert "question about tolerance" in capsys.readouterr().err


def test_progress_for_a_program(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stitch", "p", "--format", "json", "--progress", "json"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    steps = [json.loads(line) for line in lines]
    assert [s["step"] for s in steps] == list(range(1, len(steps) + 1)) and all(s["step"] <= s["of"] for s in steps)
    assert any("building the version" in s["message"] for s in steps)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing"], "missing: no such file"),
        (["p", "--proposer", "llm"], "no model is configured"),
        (["p", "--proposer", "both"], "no model is configured"),
        (["p", "--timeout", "0"], "--timeout 0: give a number of seconds above 0"),
        (["p", "--scope", "main", "--scope", "missing"], "scope missing: no source of the program mentions"),
        (["p", "--diff", "--write"], "not allowed with"),
    ],
)
def test_what_cannot_start_is_2(
    made: MadeUp, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stitch", *words]) == 2
    assert message in capsys.readouterr().err
    assert not Path("cache").exists()


def test_a_wrong_project_file_is_2(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p/stitchcuda.toml").write_text("[run]\ntimeout = 'x'\n")
    assert main(["stitch", "p"]) == 2
    assert "stitchcuda.toml" in capsys.readouterr().err
