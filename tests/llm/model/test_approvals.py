"""What is asked before anything is sent or executed, and where the answers lie."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from stitchcuda.agent.model.approvals import Approvals, ApprovalsError, Command, Kind, needed
from stitchcuda.agent.model.endpoint import NO_KEY, Endpoint, Origin

MINE = Endpoint("https://gateway.example.org/v1", "coder", said_by="an option")
THEIRS = replace(MINE, origin=Origin.WORKSPACE, said_by="/w/stitchcuda.toml")
MAKE = Command("make app", "/w/stitchcuda.toml")


@pytest.fixture
def kept(tmp_path: Path) -> Approvals:
    return Approvals(tmp_path / "state")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def agreed(kept: Approvals, root: Path, endpoint: Endpoint | None, *files: str, key: str = NO_KEY) -> bool:
    return not needed(root, endpoint, files, key=key, approved=kept.all(root))


def agree(kept: Approvals, root: Path, endpoint: Endpoint, *files: str, key: str = NO_KEY) -> None:
    for question in needed(root, endpoint, files, key=key, approved=kept.all(root)):
        kept.record(question)
    assert agreed(kept, root, endpoint, *files, key=key)


def test_what_the_user_is_told(root: Path) -> None:
    (question,) = needed(root, THEIRS, ["b.cu", "a.cu", "a.cu"], key="secret-key", approved=())
    assert question.kind is Kind.SEND and question.files == ("a.cu", "b.cu")
    for said in ("2 files", "the model coder", "https://gateway.example.org/v1", "a.cu, b.cu", "/w/stitchcuda.toml"):
        assert said in question.text
    assert "Your key goes along" in question.text and "secret-key" not in repr(question)
    assert "not encrypted" not in question.text
    (plain,) = needed(root, replace(MINE, base_url="http://10.0.0.3:8000/v1"), ["a.cu"], approved=())
    assert "not encrypted" in plain.text and "key" not in plain.text
    for local in ("http://127.0.0.1:1/v1", "http://localhost:1/v1", "http://[::1]:1/v1"):
        assert "not encrypted" not in needed(root, replace(MINE, base_url=local), ["a.cu"], approved=())[0].text
    many = needed(root, MINE, [f"{k:02}.cu" for k in range(40)], approved=())[0]
    assert "40 files" in many.text and "and 28 more" in many.text


def test_nothing_hides_in_a_question(root: Path) -> None:
    names = ["a.cu\r\x1b[2KSend nothing?", "b\u202ecu.h"]
    command = Command("make\nrm -rf ~ \x1b[8m", "/w/stitchcuda.toml")
    for question in needed(root, MINE, names, [command], approved=()):
        head, *rest = question.text.split("\n")
        assert all(c.isprintable() for line in (head, *rest) for c in line)
    assert "make\\nrm -rf ~ \\x1b[8m" in question.text


@pytest.mark.parametrize("blank", ["\u2800", "\u3164", "\u115f", "\uffa0", "\ufe0f", "\U000e0100"])
def test_letters_without_ink_show(root: Path, blank: str) -> None:
    (question,) = needed(root, None, (), [Command(f"make{blank}; rm -rf ~", "/w/stitchcuda.toml")], approved=())
    assert blank not in question.text and ascii(blank)[1:-1] in question.text


def test_an_address_in_other_letters_does_not_look_like_another(root: Path) -> None:
    address = MINE.base_url.replace("example", "ex\u0430mple")
    (question,) = needed(root, replace(MINE, base_url=address), ["größe.cu"], approved=())
    assert "ex\\u0430mple" in question.text and question.subject == address and "größe.cu" in question.text


def test_a_yes_is_for_what_was_asked(kept: Approvals, root: Path) -> None:
    agree(kept, root, MINE, "a.cu", "b.cu", key="k")
    assert agreed(kept, root, MINE, "a.cu", key="other key") and agreed(kept, root, MINE, key="k")
    for other in (
        replace(MINE, base_url="https://gateway.example.com/v1"),
        replace(MINE, base_url="http://gateway.example.org/v1"),
        replace(MINE, model="dearer"),
    ):
        assert not agreed(kept, root, other, "a.cu", key="k")
    assert not agreed(kept, root, MINE, "a.cu"), "a question without a key is another one"
    other_root = root.parent / "other"
    other_root.mkdir()
    assert not agreed(kept, other_root, MINE, "a.cu", key="k")
    agree(kept, other_root, MINE, "b.cu", key="k")
    assert agreed(kept, root, MINE, "a.cu", key="k") and not agreed(kept, other_root, MINE, "a.cu", key="k")


def test_new_files_are_asked_about_by_themselves(kept: Approvals, root: Path) -> None:
    agree(kept, root, MINE, "a.cu")
    (question,) = needed(root, MINE, ["a.cu", "b.cu"], approved=kept.all(root))
    assert question.files == ("b.cu",) and "also 1 file" in question.text
    kept.record(question)
    assert agreed(kept, root, MINE, "a.cu", "b.cu")


def test_commands_of_the_workspace(kept: Approvals, root: Path) -> None:
    found_by_us = Command("nvcc a.cu")
    asked = needed(root, None, (), [MAKE, found_by_us, MAKE], approved=())
    assert [q.kind for q in asked] == [Kind.EXECUTE] and "make app" in asked[0].text
    kept.record(asked[0])
    assert needed(root, None, (), [MAKE], approved=kept.all(root)) == ()
    for changed in (
        Command("make app ", MAKE.file),
        Command("make app; curl x", MAKE.file),
        Command("make app", "/w/x"),
    ):
        assert len(needed(root, None, (), [changed], approved=kept.all(root))) == 1


def test_without_an_endpoint_nothing_is_asked(root: Path) -> None:
    assert needed(root, None, ["a.cu"], [Command("make")], approved=()) == ()


def test_an_answer_is_kept_for_others_to_read_but_not_in_the_workspace(
    kept: Approvals, root: Path, tmp_path: Path
) -> None:
    agree(kept, root, MINE, "a.cu")
    assert agreed(Approvals(tmp_path / "state"), root, MINE, "a.cu")
    assert list(root.iterdir()) == []
    (file,) = (tmp_path / "state" / "approvals").iterdir()
    if sys.platform != "win32":
        assert file.stat().st_mode & 0o077 == 0 and file.parent.stat().st_mode & 0o077 == 0


def test_the_workspace_cannot_agree(root: Path) -> None:
    """A state folder inside of the workspace neither counts nor is written to, however it is reached."""
    inside = Approvals(root / ".local")
    (question,) = needed(root, MINE, ["a.cu"], approved=())
    with pytest.raises(ApprovalsError, match="XDG_STATE_HOME"):
        inside.record(question)
    folder = root / ".local" / "approvals"
    folder.mkdir(parents=True)
    value = {"schema": 1, "kind": "send", "root": str(root), "subject": MINE.base_url, "detail": question.detail}
    (folder / f"{question.digest}.json").write_text(json.dumps({**value, "files": ["a.cu"], "text": ""}))
    assert inside.all(root) == ()
    if sys.platform != "win32":
        (root.parent / "state").symlink_to(root / ".local")
        assert Approvals(root.parent / "state").all(root) == ()


def test_an_answer_under_another_name_does_not_count(kept: Approvals, root: Path, tmp_path: Path) -> None:
    agree(kept, root, MINE, "a.cu")
    (file,) = (tmp_path / "state" / "approvals").iterdir()
    value = json.loads(file.read_text())
    for change in (
        {"subject": "https://evil.example.org/v1"},
        {"root": "/elsewhere"},
        {"kind": "execute"},
        {"schema": 2},
        {"files": 3},
        {"files": [1]},
        {"detail": None},
    ):
        file.write_text(json.dumps({**value, **change}))
        assert kept.all(root) == (), change
    for content in (b"", b"[]", b"\xff", b"{" * 100_000):
        file.write_bytes(content)
        assert kept.all(root) == ()
    file.unlink()
    file.mkdir()
    assert kept.all(root) == ()


def test_taking_it_back(kept: Approvals, root: Path) -> None:
    agree(kept, root, MINE, "a.cu")
    (command,) = needed(root, None, (), [MAKE], approved=())
    kept.record(command)
    assert [q.kind for q in kept.revoke(root, Kind.SEND)] == [Kind.SEND]
    assert not agreed(kept, root, MINE, "a.cu") and needed(root, None, (), [MAKE], approved=kept.all(root)) == ()
    assert [q.kind for q in kept.revoke(root)] == [Kind.EXECUTE] and kept.revoke(root) == ()


def test_a_program_that_is_one_file(kept: Approvals, root: Path) -> None:
    (root / "a.cu").write_text("")
    agree(kept, root / "a.cu", MINE, "a.cu")
    assert agreed(kept, root, MINE, "a.cu")


@pytest.mark.skipif(sys.platform == "win32", reason="a file stands where the folder should be")
def test_an_answer_that_cannot_be_kept(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (question,) = needed(root, MINE, ["a.cu"], approved=())
    with pytest.raises(ApprovalsError, match="cannot be kept"):
        Approvals(tmp_path / "file").record(question)
