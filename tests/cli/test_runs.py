"""`stitchcuda runs` as a user sees it: choices of units, applied, taken back and made again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from stitchcuda.agent import journal, versions
from stitchcuda.agent.journal import Record
from stitchcuda.agent.units import TextEdit, Unit
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.server.cli import applying, runs, stitch
from stitchcuda.server.cli.dispatch import main
from stitchcuda.server.cli.errors import CannotRun

from tests.cli.made_up_machinery import MadeUp

FILES = {"a.cu": b"#include <cuda.h>\nwait();\none\nwait();\n", "b.cu": b"two\r\nwait();\r\n"}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> MadeUp:
    """One run about the program in `p` of the current folder; its three units were accepted together."""
    made = MadeUp()
    for module in (stitch, runs):
        monkeypatch.setattr(module, "real_machinery", made.machinery)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("p").mkdir()
    for name, content in FILES.items():
        Path("p", name).write_bytes(content)
    assert main(["stitch", "p", "--intent", "halve the latency"]) == 0
    capsys.readouterr()
    made.judged.clear()
    return made


def tree() -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(Path("p").iterdir())}


def record() -> Record:
    return journal.find(None)


def test_list_and_show(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list"]) == 0
    assert f"{record().name}  improved        3 of 3 units  {Path('p').absolute()}" in capsys.readouterr().out
    assert main(["runs", "show", record().name[-6:]]) == 0
    out = capsys.readouterr().out
    assert all(f"* {u.id} remove-wait" in out for u in record().units) and "verdict: accepted" in out
    assert main(["runs", "list", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert row["outcome"] == "improved" and row["run_dir"] == str(record().folder)
    assert main(["runs", "show", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "improved"


def test_the_accepted_choice_is_applied_and_taken_back(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "apply"]) == 0
    assert tree() == {"a.cu": b"#include <cuda.h>\none\n", "b.cu": b"two\r\n"}
    assert not made.judged  # it was validated by the run
    assert main(["runs", "revert"]) == 0 and tree() == FILES
    assert main(["runs", "revert"]) == 0 and tree() == FILES


def test_what_was_refused_does_not_count_as_applied(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    first, *_, third = (u.id for u in record().units)
    Path("p/b.cu").write_bytes(b"typed\n")
    assert main(["runs", "apply"]) == 2 and "nothing was written" in capsys.readouterr().err
    assert record().applied == () and main(["runs", "revert"]) == 2
    Path("p/b.cu").write_bytes(FILES["b.cu"])
    assert main(["runs", "apply", "--units", first, "--unvalidated"]) == 0
    applied = record().applied
    Path("p/b.cu").write_bytes(b"typed\n")
    assert main(["runs", "apply", "--units", third, "--unvalidated"]) == 2
    assert record().applied == applied
    Path("p/b.cu").write_bytes(FILES["b.cu"])
    assert main(["runs", "revert"]) == 0 and tree() == FILES


def test_what_could_not_be_undone_stays_known(made: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a file holds the new text, and only a run that knows it can take it back."""

    def first_only(changes: Mapping[str, bytes | None], expected: object) -> tuple[str, ...]:
        path, content = next(iter(changes.items()))
        Path(path).write_bytes(content or b"")
        raise CannotRun("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(applying, "replace_files", first_only)
        assert main(["runs", "apply"]) == 2
    assert len(record().applied) == 1 and tree() != FILES
    assert main(["runs", "revert"]) == 0 and tree() == FILES


def test_what_a_run_from_elsewhere_says_of_itself_is_checked(made: MadeUp, tmp_path: Path) -> None:
    shutil.copytree(record().folder, tmp_path / "received")
    assert main(["runs", "apply", "received"]) == 0
    assert len(made.judged) == 1


@pytest.mark.parametrize("path", [".git/hooks.cu", "Makefile", "notes.txt", "linked/new.cu"])
def test_only_sources_inside_of_the_program_are_written(
    made: MadeUp, tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    (tmp_path / "outside").mkdir()
    Path("p/linked").symlink_to(tmp_path / "outside", target_is_directory=True)
    before = tree_of(tmp_path)
    unit = Unit("", (), "remove-wait", "", (TextEdit(path, 0, 0, b"int a;\n"),), Declared(("remove-wait",)))
    units = versions.extend(journal.base_texts(record()), record().units, [unit])
    journal.Run(record().folder).units(journal.base_texts(record()), units)
    chosen = ",".join(u.id for u in units)
    assert main(["runs", "apply", "--units", chosen, "--unvalidated"]) == 2
    err = capsys.readouterr().err
    assert "is no source file of a program" in err or "a link leads out of the program's folder" in err
    assert tree_of(tmp_path) == before


def tree_of(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if "cache" not in p.parts}


def test_another_choice_is_validated_first_and_its_verdict_is_kept(made: MadeUp) -> None:
    first, second, third = (u.id for u in record().units)
    assert main(["runs", "apply", "--units", f"{third[:8]},{first}"]) == 0
    assert tree() == {"a.cu": b"#include <cuda.h>\none\nwait();\n", "b.cu": b"two\r\n"}
    assert len(made.judged) == 1 and made.judged[0].texts["b.cu"] == b"two\r\n"
    assert main(["runs", "apply", "--units", second]) == 0  # goes from one choice to another
    assert tree() == {"a.cu": b"#include <cuda.h>\nwait();\none\n", "b.cu": FILES["b.cu"]}
    assert main(["runs", "apply", "--units", f"{first},{third}"]) == 0 and len(made.judged) == 2
    assert main(["runs", "replay"]) == 0
    assert main(["runs", "revert"]) == 0 and tree() == FILES


def test_a_choice_that_is_rejected_or_cannot_be_validated_is_not_written(
    made: MadeUp, capsys: pytest.CaptureFixture[str]
) -> None:
    first = record().units[0].id
    made.keep = b"nowhere"
    assert main(["runs", "apply", "--units", first]) == 1
    assert "rejected, nothing was written" in capsys.readouterr().err
    made.keep, made.untested = b"", ("G3", "G4", "G6")
    assert main(["runs", "apply", "--units", first]) == 2
    assert "--unvalidated writes it all the same" in capsys.readouterr().err
    assert tree() == FILES
    assert main(["runs", "apply", "--units", first, "--unvalidated"]) == 0
    assert tree()["a.cu"] == b"#include <cuda.h>\none\nwait();\n"


def test_text_that_the_run_does_not_know_is_left_alone(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p/b.cu").write_bytes(b"mine")
    assert main(["runs", "apply"]) == 2
    assert "b.cu: has been changed since it was read; nothing was written" in capsys.readouterr().err
    assert tree() == {"a.cu": FILES["a.cu"], "b.cu": b"mine"}
    Path("p/b.cu").write_bytes(FILES["b.cu"])
    assert main(["runs", "apply"]) == 0
    Path("p/a.cu").write_bytes(b"mine")
    assert main(["runs", "revert"]) == 2
    assert tree() == {"a.cu": b"mine", "b.cu": b"two\r\n"}


def test_a_file_that_cannot_be_written_leaves_the_others_as_they_were(
    made: MadeUp, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from stitchcuda.server.cli import writing
    from stitchcuda.server.cli.errors import CannotRun

    real = writing.replace_file

    def full(path: str, content: bytes) -> None:
        if path.endswith("b.cu") and content != FILES["b.cu"]:
            raise CannotRun(f"{path}: cannot be written (No space left on device)")
        real(path, content)

    monkeypatch.setattr(writing, "replace_file", full)
    assert main(["runs", "apply"]) == 2
    assert "No space left" in capsys.readouterr().err and tree() == FILES


def test_a_changed_program_is_not_validated(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    first, _, third = record().units
    Path("p/b.cu").write_bytes(b"mine")
    assert main(["runs", "apply", "--units", third.id]) == 2
    Path("p/b.cu").write_bytes(FILES["b.cu"])
    Path("p/c.cu").write_bytes(b"int x;\n")
    assert main(["runs", "apply", "--units", first.id]) == 0  # a file that the run never saw is no reason


def test_diff_and_replay(made: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "diff", "--units", record().units[2].id]) == 0
    assert capsys.readouterr().out == "--- a/b.cu\n+++ b/b.cu\n@@ -1,2 +1 @@\n two\r\n-wait();\r\n"
    assert main(["runs", "replay", "--format", "json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["same"] and len(value["versions"]) == 1
    versions = record().folder / "versions.json"
    versions.write_text(versions.read_text().replace(record().made[0].files["a.cu"], "0" * 32))
    assert main(["runs", "replay"]) == 1
    assert "differs in a.cu" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["apply", "--units", "zzz"], "no unit of that id"),
        (["show", "nope"], "no run of that name"),
        (["revert"], "nothing of this run was written"),
        ([], "ACTION"),
    ],
)
def test_what_cannot_be_done_is_2(
    made: MadeUp, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", *words]) == 2
    assert message in capsys.readouterr().err
