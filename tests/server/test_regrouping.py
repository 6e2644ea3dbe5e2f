"""What the analysis process does when a `main` comes or goes: other open files are looked at again, each with its own program."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.server import program
from stitchcuda.server.engine.inbox import Inbox
from stitchcuda.server.engine.messages import Check, DiskChanged, OpenText, Reply, Result, Texts, Workspace
from stitchcuda.server.engine.process import AnalysisProcess

HELPER = "void helper() {}\n"
MAIN = "int main() { return 0; }\n"


class Waiting:
    """An inbox in which nothing waits but what the process puts back."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def put_back(self, request: Any) -> None:
        self.requests.append(request)

    def superseded(self, path: str) -> bool:
        return False

    def has_check(self) -> bool:
        return False

    def is_waiting(self) -> bool:
        return False

    def running(self, path: str | None) -> threading.Event:
        return threading.Event()


def test_the_folder_of_many_open_files_is_looked_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [str(tmp_path / f"{number}.cu") for number in range(20)]
    for file in (*files, str(tmp_path / "Makefile")):
        Path(file).write_text(MAIN if file in files else "")
    looked: list[str] = []
    below = program.below

    def counted(place: program.Place) -> list[str] | None:
        looked.append(place.folder)
        return below(place)

    monkeypatch.setattr(program, "below", counted)
    process = AnalysisProcess(cast(Inbox, Waiting()), lambda _: None, Index)
    process.handle(Workspace((str(tmp_path),), True))
    process.handle(Texts({file: OpenText(n, "cuda", MAIN.encode()) for n, file in enumerate(files)}, ()))
    process.handle(Check(files[0]))
    assert len(looked) <= 4, "for the file itself, for all of them, for libraries"
    looked.clear()
    process.handle(DiskChanged(()))
    assert looked == [str(tmp_path)]


def test_files_that_lose_a_source_are_looked_at_again(tmp_path: Path) -> None:
    inbox = Waiting()
    replies: list[Reply] = []
    process = AnalysisProcess(cast(Inbox, inbox), replies.append, Index)
    one, two, work = (str(tmp_path / name) for name in ("one.cu", "two.cu", "work.cu"))
    for path, text in ((one, MAIN), (two, HELPER), (work, HELPER)):
        Path(path).write_text(text)

    def put(path: str, text: str, revision: int) -> list[str]:
        """Which files the check of one that has a new text tells of, and then those that are looked at again."""
        process.handle(Texts({path: OpenText(revision, "cuda", text.encode())}, ()))
        process.handle(Check(path))
        again = [request.path for request in inbox.requests]
        while inbox.requests:
            process.handle(inbox.requests.pop(0))
        return again

    def told() -> set[str]:
        last = next(r for r in reversed(replies) if isinstance(r, Result) and r.complete)
        return {Path(path).name for path in last.facts}

    process.handle(Workspace((str(tmp_path),), True))
    assert put(one, MAIN, 1) == [] and put(two, HELPER, 1) == []
    assert told() == {"one.cu", "two.cu"}
    assert put(two, HELPER + "// more\n", 2) == [], "an edit like any other"
    assert put(two, MAIN, 3) == [one]
    assert told() == {"one.cu"}
    loaded = {key: set(program.loaded) for key, program in process._programs.items()}
    assert loaded == {one: {one, work}, two: {two, work}}
    assert put(two, HELPER, 4) == [one]
    assert told() == {"one.cu", "two.cu"}
    process.handle(Texts({}, (two,)))
    Path(two).write_text(MAIN)
    process.handle(DiskChanged((two,)))
    process.handle(Check(one))
    assert {key: set(program.loaded) for key, program in process._programs.items()} == {one: {one, work}}
