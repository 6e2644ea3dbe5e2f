"""What hover tells of one function before all of a long file is described."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.syntax.text import Change, Document, Position, at_before
from stitchcuda.server.documents import Documents
from stitchcuda.server.engine.analyses import Analyses
from stitchcuda.server.engine.facts import FileFacts
from stitchcuda.server.engine.inbox import Inbox
from stitchcuda.server.engine.messages import (
    Check,
    EditedText,
    GraphText,
    OpenText,
    Outline,
    OutlineAnswer,
    OutlineAt,
    Reply,
    Request,
    Result,
    Texts,
)
from stitchcuda.server.engine.process import AnalysisProcess

from benchmarks.long_file import EDIT_AT, generated
from tests.server.test_part_of_a_program import NothingWaits

PATH = "/nowhere/long.cu"
URI = "file:///nowhere/long.cu"
TEXT = generated(400)


class Session:
    def __init__(self) -> None:
        self.inbox = NothingWaits()
        self.replies: list[Reply] = []
        self.process = AnalysisProcess(cast(Inbox, self.inbox), self.replies.append, Index)
        self.process.handle(Texts({PATH: OpenText(1, "cuda", TEXT.encode())}))

    def at(self, text: str, revision: int) -> FileFacts | None:
        self.process.handle(OutlineAt(7, PATH, revision, TEXT.index(text)))
        answer = self.replies[-1]
        assert isinstance(answer, OutlineAnswer) and answer.id == 7 and not answer.error
        return answer.facts


def test_it_is_what_the_whole_outline_says_of_the_function() -> None:
    session = Session()
    session.process.handle(Check(PATH))
    some = session.at("stage_2(const float *host", 1)
    session.process.send_outlines()
    whole = next(r for r in session.replies if isinstance(r, Outline)).facts[PATH]
    assert some is not None
    start, end = TEXT.index("float stage_2("), TEXT.index("__global__ void scale_3")
    launches = [launch for launch in whole.launches if start <= launch.place.start < end]
    assert list(some.launches) == launches and len(launches) == 2 < len(whole.launches)
    operations = [each for each in whole.operations if start <= each.place.start < end]
    assert list(some.operations) == operations and operations
    assert {n.name for n in some.named} == {"in", "scaled", "sums", "staged", "back", "copy", "work", "uploaded"} | {
        n.name for n in some.named if n.scope is None
    }


def test_a_text_that_was_not_analysed_has_none() -> None:
    session = Session()
    assert session.at(EDIT_AT, 1) is None
    session.process.handle(Check(PATH))
    assert session.at(EDIT_AT, 1) is not None
    assert session.at(EDIT_AT, 2) is None, "that text has not come"
    assert session.at("#include", 1) is None, "no function is there"
    size = len(TEXT.encode())
    session.process.handle(Texts({PATH: EditedText(2, 0, size, b"// more\n")}))
    assert session.at(EDIT_AT, 2) is None
    known = session.at(EDIT_AT, 1)
    assert known is not None and known.launches, "the last text that was analysed still has it"
    session.process.handle(Check(PATH))
    assert session.at(EDIT_AT, 1) is None
    assert session.at(EDIT_AT, 2) is not None


def test_what_a_graph_was_made_of_is_the_text_that_was_analysed() -> None:
    session = Session()
    session.process.handle(Check(PATH))
    size = len(TEXT.encode())
    front = b"// more\n"
    session.process.handle(Texts({PATH: EditedText(2, 0, size, front)}))
    session.process._own(PATH).waiting = None  # it may have more sources now
    session.process.handle(GraphText(8, PATH, "", "text"))
    assert session.at(EDIT_AT, 1) is None, "the places are those of the newer text"
    session.process.handle(OutlineAt(7, PATH, 2, len(front) + TEXT.index(EDIT_AT)))
    answer = session.replies[-1]
    assert isinstance(answer, OutlineAnswer) and answer.facts is not None and answer.facts.launches


class Pointing(NothingWaits):
    """Someone points at something as soon as an analysis runs, while another file waits to be checked."""

    def __init__(self) -> None:
        self.waiting: list[OutlineAt] = []

    def has_check(self) -> bool:
        return bool(self.waiting)

    def is_waiting(self) -> bool:
        return bool(self.waiting)

    def take_outline_at(self, wanted: Callable[[OutlineAt], bool]) -> OutlineAt | None:
        found = next((each for each in self.waiting if wanted(each)), None)
        if found is not None:
            self.waiting.remove(found)
        return found


def test_it_does_not_wait_for_an_analysis_that_runs() -> None:
    session = Session()
    inbox = Pointing()
    session.process._inbox = cast(Inbox, inbox)
    at = TEXT.index(EDIT_AT)
    inbox.waiting = [OutlineAt(1, PATH, 1, at)]
    session.process.handle(Check(PATH))
    assert inbox.waiting, "there is nothing to tell of a text that was not analysed yet"
    text = TEXT.encode().replace(EDIT_AT.encode(), b"2.5f", 1)
    front = text.index(b"2.5f")
    inbox.waiting = [OutlineAt(2, PATH, 2, at), OutlineAt(3, PATH, 1, at)]
    session.process.handle(Texts({PATH: EditedText(2, front, len(text) - front - 4, b"2.5f")}))
    session.replies.clear()
    session.process.handle(Check(PATH))
    kinds = [type(reply) for reply in session.replies]
    answers = [reply for reply in session.replies if isinstance(reply, OutlineAnswer)]
    assert [answer.id for answer in answers] == [3] and answers[0].facts is not None
    assert kinds.index(OutlineAnswer) < kinds.index(Result)
    expected = Session()
    expected.process.handle(Check(PATH))
    assert answers[0].facts == expected.at(EDIT_AT, 1)


def asked_by(documents: Documents) -> Analyses:
    def nobody(*_: object) -> None:
        """Hears nothing."""

    return Analyses(documents, nobody, nobody, nobody, nobody)


def analysed_once() -> tuple[Documents, Document, Analyses]:
    """An open file whose first text was analysed."""
    documents = Documents("utf-16")
    document = documents.open(URI, "cuda", 0, TEXT)
    analyses = asked_by(documents)
    analyses._facts[document.path] = (document.revision, FileFacts(document.path))
    return documents, document, analyses


@pytest.mark.parametrize("edits", [[(100, "more\n")], [(0, "x"), (3000, "y" * 50)], []])
def test_the_server_asks_about_the_place_in_the_text_that_was_analysed(edits: list[tuple[int, str]]) -> None:
    """Whatever was typed since, and the answer is carried back."""
    documents, before, analyses = analysed_once()
    asked: list[OutlineAt] = []

    async def answer(request: Callable[[int], OutlineAt]) -> OutlineAnswer:
        asked.append(request(1))
        return OutlineAnswer(1, FileFacts(before.path))

    analyses._answer = answer  # type: ignore[assignment, method-assign]
    for version, (offset, text) in enumerate(edits, 1):
        place = before.position(offset, "utf-16")
        documents.change(URI, version, [Change(place, place, text)])
    now = documents.get(URI)
    assert now is not None
    found = asyncio.run(analyses.outline_at(URI, lambda document: document.encoded.index(EDIT_AT.encode())))
    assert found == (before.revision, FileFacts(before.path))
    assert [(each.revision, each.at) for each in asked] == [(before.revision, TEXT.index(EDIT_AT))]


def test_a_text_that_gave_way_on_the_way_is_asked_for_again() -> None:
    documents, document, analyses = analysed_once()
    asked: list[int] = []

    async def answer(request: Callable[[int], OutlineAt]) -> OutlineAnswer:
        asked.append(request(1).revision)
        changed = documents.change(URI, len(asked), [Change(None, None, TEXT + "// more\n")])
        if len(asked) == 1:
            assert changed is not None
            analyses._facts[document.path] = (changed.revision, FileFacts(document.path))
        return OutlineAnswer(1)

    analyses._answer = answer  # type: ignore[assignment, method-assign]
    assert asyncio.run(analyses.outline_at(URI, lambda document: 5)) is None
    assert asked == [document.revision, document.revision + 1], "once more, and not for ever"


@pytest.mark.parametrize("edited", [False, True])
def test_a_process_that_was_started_again_analyses_the_file_first(
    monkeypatch: pytest.MonkeyPatch, edited: bool
) -> None:
    """It knows nothing of the text whose facts the one before it told."""
    documents, document, analyses = analysed_once()
    monkeypatch.setattr(analyses, "start", lambda: None)
    ended = cast(subprocess.Popen[bytes], SimpleNamespace(wait=lambda: -9))
    asyncio.run(analyses._restart(ended))
    if edited:
        documents.change(URI, 1, [Change(None, None, "// more\n" + TEXT)])
    now = documents.get(URI)
    assert now is not None
    sent: list[Request] = []
    monkeypatch.setattr(analyses, "_send", sent.append)

    async def answer(request: Callable[[int], OutlineAt]) -> OutlineAnswer:
        assert Check(document.path) in sent
        assert request(1).revision == now.revision
        return OutlineAnswer(1, FileFacts(document.path))

    analyses._answer = answer  # type: ignore[assignment, method-assign]
    assert asyncio.run(analyses.outline_at(URI, lambda document: 5)) == (now.revision, FileFacts(document.path))
    facts = {document.path: FileFacts(document.path)}
    analyses._take(Result(document.path, {document.path: now.revision}, facts, True, 0.0))
    sent.clear()

    async def known(request: Callable[[int], OutlineAt]) -> OutlineAnswer:
        return OutlineAnswer(1, FileFacts(document.path))

    analyses._answer = known  # type: ignore[assignment, method-assign]
    assert asyncio.run(analyses.outline_at(URI, lambda document: 5)) is not None
    assert sent == [], "what it analysed itself it is only asked about"


def test_places_before_edits() -> None:
    chance = random.Random(3)
    for _ in range(500):
        text = "abcdefghij" * 3
        documents = Documents("utf-16")
        first = documents.open(URI, "cuda", 0, text)
        for version in range(1, chance.randrange(1, 6)):
            size = len(text)
            start = chance.randrange(size + 1)
            end = chance.randrange(start, min(size, start + 4) + 1)
            new = "X" * chance.randrange(4)
            text = text[:start] + new + text[end:]
            documents.change(URI, version, [Change(Position(0, start), Position(0, end), new)])
        edits = documents.since(URI, first.revision)
        assert edits is not None
        for offset, letter in enumerate(text):
            old = at_before(offset, edits)
            assert 0 <= old <= 30
            if letter != "X":
                assert first.encoded[old : old + 1] == letter.encode()
