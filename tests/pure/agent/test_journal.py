"""The journal: readable after a crash at any point, and enough to make every version again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from stitchcuda.agent import journal, versions
from stitchcuda.agent.journal import Applied, JournalError, Made, Run
from stitchcuda.agent.transforms.transform import Refusal
from stitchcuda.agent.units import Obligation, TextEdit, Unit, leaves
from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.gpu_validate.version import Version

BASE = {"a.cu": b"one\r\n\xff\r\n", "b.cu": "延迟\n".encode(), "untouched.h": b"int x;\n"}
REFUSAL = Refusal("remove-wait", "b.cu", 3, "the host reads `x`")


def units() -> tuple[Unit, ...]:
    drafts = [
        Unit("", (), "remove-wait", "why", (TextEdit("a.cu", 5, 6, b"\xfe"),), Declared(("remove-wait",), May.FEWER)),
        Unit(
            "",
            (),
            "keep-resident",
            "为什么",
            (TextEdit("b.cu", 0, 0, b"// \xe5\xbb\xb6\n"), TextEdit("new/c.h", 0, 0, b"#pragma once\n")),
            Declared(("keep-resident",), copies=May.FEWER),
            (Obligation("nobody reads it", "the analysis"),),
            ("bounds[0]",),
        ),
    ]
    return versions.extend(BASE, (), drafts)


def made_of(chosen: tuple[Unit, ...], root: Path) -> Made:
    texts = versions.compose(BASE, units(), [u.id for u in chosen])
    digests = {path: journal.text_digest(content) for path, content in texts.items()}
    return Made(tuple(u.id for u in chosen), Version(root, texts).digest, digests)


NONE = "0" * 32  # the digest of no text
RESULT = {"outcome": "improved", "reason": "", "verdict": None}


def write_a_run(folder: Path) -> Run:
    run = journal.start(folder / "program", stitchcuda="0", folder=folder / "runs")
    run.write("contract.json", {"task": "x"})
    run.baseline(BASE)
    run.event("proposed", transform="remove-wait")
    run.units(BASE, units())
    made = (made_of(units(), folder), made_of(units()[1:], folder))
    run.made(made)
    run.verdict(made[0].digest, {"schema": 1, "state": "accepted"})
    run.refusals([REFUSAL])
    run.event("judged")
    run.write("result.json", RESULT | {"best": {"units": list(made[0].units)}})
    return run


def test_what_was_written_is_read(tmp_path: Path) -> None:
    run = write_a_run(tmp_path)
    run.applied([Applied(("x",), {"a.cu": NONE})])
    record = journal.find(None, tmp_path / "runs")
    assert (record.folder, record.root) == (run.folder, tmp_path / "program")
    assert record.units == units() and record.refusals == (REFUSAL,)
    assert record.contract == {"schema": 1, "task": "x"} and record.best == tuple(u.id for u in units())
    assert record.applied == (Applied(("x",), {"a.cu": NONE}),)
    assert [e["kind"] for e in journal.events(record)] == ["proposed", "judged"]
    assert journal.verdict(record, record.made[0].digest) == {"schema": 1, "state": "accepted"}
    assert journal.verdict(record, record.made[1].digest) is None
    assert journal.base_texts(record) == {path: BASE[path] for path in ("a.cu", "b.cu")}  # only what is edited is kept


def test_every_version_is_made_again_from_the_journal_alone(tmp_path: Path) -> None:
    write_a_run(tmp_path)
    done = journal.replay(journal.find(None, tmp_path / "runs"))
    assert [len(r.made.units) for r in done] == [2, 1]
    assert not any(r.differing for r in done)


def test_replay_finds_what_is_not_the_same(tmp_path: Path) -> None:
    run = write_a_run(tmp_path)
    made = made_of(units(), tmp_path)
    run.made([Made(made.units, made.digest, {**made.files, "b.cu": NONE}), Made(made.units, NONE, made.files)])
    first, second = journal.replay(journal.read(run.folder))
    assert first.differing == ("b.cu",)
    assert second.differing == ("a.cu", "b.cu", "new/c.h")
    text = run.folder / "texts" / journal.text_digest(BASE["a.cu"])
    text.write_bytes(b"two\r\n")
    with pytest.raises(JournalError, match="is not the original text of a.cu any more"):
        journal.replay(journal.read(run.folder))


def test_a_run_that_was_cut_off_anywhere_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fails at the n-th file, for every n: what was written before is there, nothing is half."""
    real = os.replace

    class Cut(Exception):
        pass

    for limit in range(1, 12):
        count = 0

        def failing(source: str, target: Path, limit: int = limit) -> None:
            nonlocal count
            count += 1
            if count == limit + 1:  # the first makes run.json
                raise Cut
            real(source, target)

        monkeypatch.setattr(os, "replace", failing)
        folder = tmp_path / str(limit)
        ended = True
        try:
            write_a_run(folder)
        except Cut:
            ended = False
        record = journal.find(None, folder / "runs")
        assert (record.result is not None) == ended
        assert not list(record.folder.rglob(".new-*"))
        if record.units:
            journal.base_texts(record)
        assert not any(r.differing for r in journal.replay(record))
    assert ended  # the last limit lay beyond the last file


def test_a_torn_last_event_is_left_out(tmp_path: Path) -> None:
    run = write_a_run(tmp_path)
    with open(run.folder / "events.jsonl", "a", encoding="utf-8") as file:
        file.write('{"step": 3, "ki')
    assert len(journal.events(journal.read(run.folder))) == 2


@pytest.mark.parametrize("path", ["", ".", "..", "/etc/x", "a/../../x", "C:x", "\\\\x", "a/", "a\0b"])
def test_paths_that_name_no_file_within_the_program(path: str) -> None:
    assert leaves(path) and not leaves("a b/.x/..y.cu")


@pytest.mark.parametrize("name", ["run.json", "units.json", "result.json", "events.jsonl", "texts"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    run = write_a_run(tmp_path)
    path = next((run.folder / name).iterdir()) if name == "texts" else run.folder / name
    path.unlink()
    os.mkfifo(path)
    if name == "run.json":
        assert journal.read_all(tmp_path / "runs") == ((), ())
    elif name == "events.jsonl":
        assert journal.events(journal.read(run.folder)) == ()
    else:
        with pytest.raises(JournalError, match="no regular file"):
            journal.base_texts(journal.read(run.folder))


def test_brackets_without_end_are_an_error_of_the_file(tmp_path: Path) -> None:
    run = write_a_run(tmp_path)
    (run.folder / "units.json").write_text("[" * 100_000)
    with pytest.raises(JournalError, match="units.json"):
        journal.read(run.folder)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("units.json", lambda v: v["units"][0]["edits"][0].update(start=4), "its edits were changed"),
        ("units.json", lambda v: v["units"][0]["edits"][0].update(path="../a.cu"), "within the program's folder"),
        ("units.json", lambda v: v["units"][0].pop("why"), r"units\[0\].why: missing"),
        ("run.json", lambda v: v.update(schema=2), 'no object with "schema": 1'),
        ("versions.json", lambda v: v.update(schema=2), 'no object with "schema": 1'),
        ("versions.json", lambda v: v["versions"][0].update(digest="../../x"), r"digest: expected a digest"),
        ("versions.json", lambda v: v.update(versions=1.5), "versions: expected a list"),
        ("baseline.json", lambda v: v["files"].update({"a.cu": "../run.json"}), "expected an object of digests"),
        ("result.json", lambda v: v.update(outcome=["improved"]), "outcome: expected one of"),
        ("result.json", lambda v: v["best"].update(units=[["x"]]), r"best.units\[0\]: expected a string"),
        ("result.json", lambda v: v.update(verdict={"schema": 1}), "state: missing"),
    ],
)
def test_a_changed_file_is_named(
    tmp_path: Path, name: str, change: Callable[[dict[str, object]], None], message: str
) -> None:
    run = write_a_run(tmp_path)
    value = json.loads((run.folder / name).read_text())
    change(value)
    (run.folder / name).write_text(json.dumps(value))
    with pytest.raises(JournalError, match=message) as error:
        journal.read(run.folder)
    assert str(run.folder / name) in str(error.value)
    assert journal.read_all(tmp_path / "runs")[1] == (str(error.value),)


def test_a_run_is_found_by_part_of_its_name_or_its_folder(tmp_path: Path) -> None:
    first, second = write_a_run(tmp_path), write_a_run(tmp_path)
    runs = tmp_path / "runs"
    assert journal.find(first.folder.name[-6:], runs).folder == first.folder
    assert journal.find(str(second.folder), runs).folder == second.folder
    with pytest.raises(JournalError, match="several runs fit"):
        journal.find(first.folder.name[:6], runs)
    with pytest.raises(JournalError, match="no run of that name"):
        journal.find("nope", runs)
    with pytest.raises(JournalError, match="no run is kept"):
        journal.find(None, tmp_path / "empty")


def test_a_folder_never_shadows_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "runs"
    kept = write_a_run(tmp_path).folder
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    part = kept.name[-6:]
    for name in (kept.name, part, "mine"):
        shutil.copytree(kept, name)
    assert journal.find(kept.name, runs).folder == kept
    assert journal.find(f"./{kept.name}", runs).folder == Path(kept.name)
    assert journal.find("mine", runs).folder == Path("mine")
    with pytest.raises(
        JournalError, match=f"{part}: a folder here is called so, and {kept.name} fits, too; write ./{part} "
    ):
        journal.find(part, runs)
    assert journal.find(f"./{part}", runs).folder == Path(part)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="cannot be written .*XDG_CACHE_HOME"):
        journal.start(tmp_path, stitchcuda="0", folder=tmp_path / "file")
