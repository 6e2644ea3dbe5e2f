"""A run's requests and replies as lines of a file, and the model that answers from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stitchcuda.agent.model.accounting import UNSAID, Ledger, Spent
from stitchcuda.agent.model.guarded import Guarded
from stitchcuda.agent.model.messages import (
    Ask,
    BudgetSpent,
    EndpointFailed,
    Finish,
    Message,
    ModelError,
    NotApproved,
    Reply,
    Speaker,
    TimedOut,
    ToolCall,
    ToolSpec,
    Unauthorized,
    Unreachable,
    Usage,
)
from stitchcuda.agent.model.secrets import Redactor
from stitchcuda.agent.model.transcript import (
    NAME,
    ReplayDiffers,
    Replaying,
    Transcript,
    TranscriptError,
    digest_of,
    recorded,
)

from tests.llm.answers import broken, call, fail, say, truncated
from tests.llm.endpoint import ScriptedEndpoint
from tests.llm.model.asking import TOOL, ask, talk

texts = st.text(max_size=20)
calls = st.builds(ToolCall, texts, texts, texts)
asks = st.builds(
    Ask,
    texts,
    texts,
    st.lists(
        st.builds(Message, st.sampled_from(Speaker), texts, st.lists(calls, max_size=2).map(tuple), texts), max_size=3
    ).map(tuple),
    st.none() | st.just({"type": "object", "required": ("a",)}),
    st.lists(st.builds(ToolSpec, texts, texts, st.just({"type": "object"})), max_size=1).map(tuple),
    st.lists(texts, max_size=2).map(tuple),
)
replies = st.builds(
    Reply,
    texts,
    st.lists(calls, max_size=2).map(tuple),
    st.builds(Usage, *[st.integers(0, 100)] * 4, st.floats(0, 1), st.booleans()),
    st.sampled_from(Finish),
    texts,
    st.floats(0, 100),
)
errors = st.one_of(
    *[
        st.builds(kind, texts)
        for kind in (ModelError, NotApproved, Unauthorized, Unreachable, EndpointFailed, TimedOut)
    ],
    st.builds(BudgetSpent, st.sampled_from(["tokens", "time"]), texts),
)


@given(st.lists(st.tuples(asks, replies | errors), max_size=4))
def test_what_was_recorded_is_answered(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[Ask, Reply | ModelError]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    transcript = Transcript(folder)
    for question, outcome in pairs:
        transcript.answered(question, outcome, Spent(tokens=3, requests=1))
    ledger = Ledger(UNSAID)
    model = Replaying(folder, ledger)
    for question, outcome in pairs:
        if isinstance(outcome, Reply):
            assert model.ask(question) == outcome
        else:
            with pytest.raises(ModelError) as error:
                model.ask(question)
            assert type(error.value) is type(outcome) and str(error.value) == str(outcome)
            assert getattr(error.value, "what", "") == getattr(outcome, "what", "")
    assert model.left == 0 and ledger.spent.tokens == 3 * len(pairs) and ledger.spent.requests == len(pairs)
    with pytest.raises(ReplayDiffers, match=f"holds {len(pairs)} requests"):
        model.ask(ask())


@given(asks, asks)
def test_digests_tell_requests_apart(one: Ask, other: Ask) -> None:
    assert (digest_of(one) == digest_of(other)) == (one == other)


def test_another_request_is_an_error(tmp_path: Path) -> None:
    Transcript(tmp_path).answered(ask("fuse the kernels a and b"), Reply("yes"), Spent())
    model = Replaying(tmp_path)
    with pytest.raises(ReplayDiffers) as error:
        model.ask(ask("fuse the kernels a and c"))
    assert "messages[1].text, from character 23" in str(error.value) and "b'" in str(error.value)
    with pytest.raises(ReplayDiffers, match="tools has 0 parts in the record and 1 now"):
        model.ask(ask("fuse the kernels a and b", None, TOOL))
    assert model.ask(ask("fuse the kernels a and b")).text == "yes", "an error does not use an answer up"


def test_a_run_and_its_replay_are_the_same(tmp_path: Path) -> None:
    """Through the client, with what fails on the way, and secrets removed before."""
    redactor = Redactor({"MY_TOKEN": "canary-value"})
    script = [call("symbol", {"name": "f"}), fail(500), broken(), truncated("half"), fail(401, "no canary-value")]
    questions = [ask(f"question {k} canary-value", None, TOOL) for k in range(3)]

    def told(model: Guarded) -> list[object]:
        found: list[object] = []
        for question in questions:
            try:
                found.append(model.ask(question))
            except ModelError as error:
                found.append((type(error), str(error)))
        return found

    with ScriptedEndpoint(script) as there:
        one = talk(there)
        first = told(Guarded(one.client, redactor, transcript=Transcript(tmp_path), ledger=one.ledger))
        assert there.left == 0
    assert b"canary" not in (tmp_path / NAME).read_bytes()
    ledger = Ledger(UNSAID)
    again = told(Guarded(Replaying(tmp_path, ledger), redactor, ledger=ledger))
    assert [repr(x) for x in first] == [repr(x) for x in again] and "canary" not in repr(first)
    assert ledger.spent.tokens == one.ledger.spent.tokens and ledger.spent.requests == one.ledger.spent.requests


def test_a_replay_writes_the_same_lines(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    with ScriptedEndpoint([say("one"), say("two")]) as there:
        one = talk(there)
        model = Guarded(one.client, Redactor({}), transcript=Transcript(first), ledger=one.ledger)
        for k in range(2):
            model.ask(ask(f"{k}"))
    ledger = Ledger(UNSAID)
    model = Guarded(Replaying(first, ledger), Redactor({}), transcript=Transcript(second), ledger=ledger)
    for k in range(2):
        model.ask(ask(f"{k}"))
    assert (first / NAME).read_bytes() == (second / NAME).read_bytes()


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path)
    for k in range(2):
        transcript.answered(ask(f"{k}"), Reply(f"{k}"), Spent())
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:-5])
    assert len(recorded(tmp_path)) == 1
    assert Replaying(tmp_path, Ledger(UNSAID)).ask(ask("0")).text == "0"


@pytest.mark.parametrize("content", [b"3\n", b"{}\n", b'{"schema": 2}\n', b"\xff\n", b"[" * 100_000 + b"\n"])
def test_what_is_no_transcript(content: bytes, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(TranscriptError, match=f"{NAME}:1"):
        Replaying(tmp_path)


@pytest.mark.parametrize("reply", [None, {}, {"text": "x"}, {"calls": 3}])
def test_a_reply_that_is_none(reply: object, tmp_path: Path) -> None:
    Transcript(tmp_path).answered(ask(), Reply("x"), Spent())
    line = json.loads((tmp_path / NAME).read_text())
    (tmp_path / NAME).write_text(json.dumps({**line, "reply": reply}) + "\n")
    with pytest.raises(TranscriptError):
        Replaying(tmp_path).ask(ask())


def test_no_transcript() -> None:
    assert recorded(Path("/nowhere/at/all")) == ()
