"""Recorded runs, made again from their records: no network, no GPU, no program. `record_transcripts.py` records them."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest
from stitchcuda.agent import journal
from stitchcuda.agent.invention.replaying import remake
from stitchcuda.agent.journal import JournalError
from stitchcuda.agent.machinery import static_analyser
from stitchcuda.agent.model import transcript
from stitchcuda.agent.transforms import TRANSFORMS
from stitchcuda.server.cli.dispatch import main

from tests.llm.record_transcripts import FOLDER, SCRIPTS


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("a replay opens no connection")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


def test_every_script_is_recorded() -> None:
    assert {p.name for p in FOLDER.iterdir()} == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_recorded_run_comes_out_bit_for_bit(name: str) -> None:
    record = journal.read(FOLDER / name)
    remade = remake(record, static_analyser(), TRANSFORMS)
    recorded = json.loads((FOLDER / name / journal.INVENTION).read_text())
    assert remade.difference == "" and remade.decisions == len(recorded["decisions"]) > 3
    made = journal.replay(record)
    assert made and not any(r.differing for r in made)


def test_the_command_makes_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "replay", str(FOLDER / "fused-kernel")]) == 0
    assert "decisions of the model's part: 4 as recorded" in capsys.readouterr().out


def test_secrets_of_today_change_no_run_of_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_TOKEN", "OTHER_RESULTS")  # which the recorded replies write
    assert remake(journal.read(FOLDER / "repaired"), static_analyser(), TRANSFORMS).difference == ""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER / "repaired", tmp_path / "run"))


def differs(folder: Path) -> str:
    return remake(journal.read(folder), static_analyser(), TRANSFORMS).difference


def test_another_reply_is_noticed(copy: Path) -> None:
    file = copy / transcript.NAME
    file.write_text(file.read_text().replace("speed 1.3", "speed 1.4"))
    assert differs(copy).startswith("decision ")


def test_another_verdict_is_noticed(copy: Path) -> None:
    recorded = json.loads((copy / journal.INVENTION).read_text())
    (version,) = {d["detail"]["version"] for d in recorded["decisions"] if d.get("shown") == "does not build"}
    file = copy / "verdicts" / f"{version}.json"
    good = next(d["detail"]["version"] for d in recorded["decisions"] if d.get("shown") == "faster")
    file.write_text((copy / "verdicts" / f"{good}.json").read_text())
    assert "decision 4" in differs(copy)


def test_another_decision_is_noticed(copy: Path) -> None:
    file = copy / journal.INVENTION
    value = json.loads(file.read_text())
    value["decisions"][3]["shown"] = "hangs"
    file.write_text(json.dumps(value))
    assert "decision 4" in differs(copy)


def test_another_end_is_noticed(copy: Path) -> None:
    file = copy / journal.INVENTION
    value = json.loads(file.read_text())
    file.write_text(json.dumps({**value, "offered": []}))
    assert "recorded versions none" in differs(copy)


def test_a_run_that_was_cut_off_comes_out_as_far_as_it_got(copy: Path) -> None:
    file = copy / journal.INVENTION
    value = json.loads(file.read_text())
    file.write_text(json.dumps({**value, "decisions": value["decisions"][:5], "stop": None, "offered": []}))
    remade = remake(journal.read(copy), static_analyser(), TRANSFORMS)
    assert (remade.decisions, remade.difference) == (5, "")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (journal.INVENTION, lambda v: {**v, "rounds": "many"}),
        (journal.INVENTION, lambda v: {**v, "decisions": [{**v["decisions"][0], "event": "won"}]}),
        (journal.INVENTION, lambda v: {**v, "stop": "no reason"}),
        (journal.INVENTION, lambda v: {k: x for k, x in v.items() if k != "files"}),
    ],
)
def test_a_record_that_is_none_is_told(copy: Path, name: str, change: object) -> None:
    file = copy / name
    file.write_text(json.dumps(change(json.loads(file.read_text()))))  # type: ignore[operator]
    with pytest.raises(JournalError, match=r"invention\.json: cannot be read"):
        remake(journal.read(copy), static_analyser(), TRANSFORMS)


def test_a_text_that_is_not_the_original_is_told(copy: Path) -> None:
    for file in (copy / "texts").iterdir():
        file.write_bytes(file.read_bytes() + b"// more\n")
    with pytest.raises(JournalError, match="is not the original text"):
        remake(journal.read(copy), static_analyser(), TRANSFORMS)
