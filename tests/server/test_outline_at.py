"""What hover tells of one function before all of a long file is described."""

from __future__ import annotations

from typing import cast

from stitchcuda.analysis.index import Index
from stitchcuda.server.engine.facts import FileFacts
from stitchcuda.server.engine.inbox import Inbox
from stitchcuda.server.engine.messages import (
    Check,
    EditedText,
    OpenText,
    Outline,
    OutlineAnswer,
    OutlineAt,
    Reply,
    Texts,
)
from stitchcuda.server.engine.process import AnalysisProcess

from benchmarks.long_file import EDIT_AT, generated
from tests.server.test_part_of_a_program import NothingWaits

PATH = "/nowhere/long.cu"
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
    assert session.at(EDIT_AT, 1) is None and session.at(EDIT_AT, 2) is None
