"""Bytes of streams, and what requests look like, without a server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stitchcuda.agent.model.endpoint import Api
from stitchcuda.agent.model.events import EventReader
from stitchcuda.agent.model.messages import Finish
from stitchcuda.agent.model.offering import is_too_long, narrowed
from stitchcuda.agent.model.wire import (
    ChatStream,
    Form,
    NoAnswer,
    ResponseStream,
    body_of,
    is_strict,
    read_whole,
    sound,
)

from tests.llm.answers import Answer, Called, stream_events, whole_body
from tests.llm.model.asking import SCHEMA, TOOL, ask

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "delta", "content", "tool_calls", "function", "arguments", "index", "usage", "output",
                 "type", "text", "status", "incomplete_details", "response", "error", "finish_reason", "prompt_tokens"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip


def events(pieces: Sequence[bytes]) -> list[bytes]:
    reader = EventReader()
    found = [data for piece in pieces for data in reader.feed(piece)]
    return found + list(reader.end())


lines = st.binary(max_size=12).filter(lambda b: b"\n" not in b and b"\r" not in b)


@given(
    st.lists(st.lists(lines, min_size=1, max_size=3), max_size=4),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(0, 200), max_size=20),
    st.booleans(),
)
def test_streams_may_be_cut_anywhere(datas: list[list[bytes]], end: bytes, cuts: list[int], closed: bool) -> None:
    stream = b"".join(
        b": a comment" + end + b"event: x" + end + b"".join(b"data: " + d + end for d in event) + end for event in datas
    )
    stream = stream if closed else stream[: len(stream) - len(end)]
    places = sorted({min(c, len(stream)) for c in cuts} | {0, len(stream)})
    assert events([stream[a:b] for a, b in pairwise(places)]) == [b"\n".join(event) for event in datas]
    assert events([stream[k : k + 1] for k in range(len(stream))]) == [b"\n".join(event) for event in datas]


def test_lines_of_one_event_belong_together() -> None:
    assert events([b"data: a\ndata:b\ndata\n\n", b"id: 3\n\nretry\n\n"]) == [b"a\nb"]


answers = st.builds(
    Answer,
    st.text(max_size=40),
    st.lists(st.builds(Called, st.text(max_size=8), st.text(max_size=20), st.text("abc", min_size=1)), max_size=2).map(
        tuple
    ),
    finish=st.sampled_from(["stop", "length", "content_filter"]),
    counted=st.booleans(),
    cached=st.just(0),
)


@given(answers, st.sampled_from([Api.CHAT, Api.RESPONSES]))
def test_a_stream_says_what_the_whole_says(answer: Answer, api: Api) -> None:
    asked = {"model": "m", "stream_options": {"include_usage": True}}
    whole = read_whole(api, json.loads(whole_body(answer, api.value, asked)))
    stream = ChatStream() if api is Api.CHAT else ResponseStream()
    for data in events(list(stream_events(answer, api.value, asked))):
        stream.feed(data)
    assert stream.whole and stream.answered() == whole
    assert whole.calls == tuple(whole.calls) and [c.arguments for c in whole.calls] == [
        c.arguments for c in answer.calls
    ]


@given(json_values, st.sampled_from([Api.CHAT, Api.RESPONSES]))
def test_no_json_is_a_surprise(value: Any, api: Api) -> None:
    """A reply or NoAnswer, and never another exception."""
    stream = ChatStream() if api is Api.CHAT else ResponseStream()
    for act in (lambda: read_whole(api, value), lambda: stream.feed(json.dumps(value).encode()), stream.answered):
        try:
            act()
        except NoAnswer:
            pass


@given(st.text(st.characters()))
def test_sound_text_can_be_written(text: str) -> None:
    assert sound(text).encode("utf-8").decode("utf-8") == sound(text)
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert sound(text) == text


def test_arguments_that_are_an_object() -> None:
    call = {"function": {"name": "symbol", "arguments": {"name": "f"}}}
    found = read_whole(
        Api.CHAT, {"choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": "stop"}]}
    )
    assert found.calls[0].arguments == '{"name": "f"}' and found.calls[0].id and found.finish is Finish.TOOLS


@pytest.mark.parametrize(
    ("change", "strict"),
    [
        ({}, True),
        ({"additionalProperties": True}, False),
        ({"required": []}, False),
        ({"properties": {"summary": {"type": "object"}}}, False),
        ({"properties": {"summary": {"type": "array", "items": {"type": "object", "properties": {}}}}}, False),
    ],
)
def test_schemas_that_are_held_to_the_letter(change: Mapping[str, object], strict: bool) -> None:
    assert is_strict({**SCHEMA, **change}) is strict


FULL = Form(Api.CHAT, "m", "low")


@pytest.mark.parametrize(
    ("said", "dropped"),
    [
        ("'response_format' of type 'json_schema' is not supported", "response_format"),
        ("This response_format type is unavailable now", "response_format"),
        ('"auto" tool choice requires --enable-auto-tool-choice', "tools"),
        ("registry.ollama.ai/library/x does not support tools", "tools"),
        ("Failed to compile the grammar of the schema", "response_format"),
        ("Unrecognized request argument supplied: stream_options", "stream_options"),
        ("Unknown parameter: reasoning_effort", "reasoning_effort"),
        ("Streaming is not supported; set stream to false", "stream"),
        ("Use 'max_completion_tokens' instead of 'max_tokens'", "max_tokens"),
    ],
)
def test_what_real_endpoints_say(said: str, dropped: str) -> None:
    """Only what is named goes; the rest of the request stays."""
    question = ask("x", SCHEMA, TOOL)
    before = body_of(question, FULL, 100)
    form = narrowed(FULL, question, said)
    assert form is not None
    after = body_of(question, form, 100)
    if dropped == "response_format":
        assert after.pop("response_format") == {"type": "json_object"}
    assert dropped not in after
    changed = {dropped, "stream_options"} if dropped == "stream" else {dropped, "max_completion_tokens"}
    assert {k: v for k, v in after.items() if k not in changed} == {k: v for k, v in before.items() if k not in changed}


def test_in_the_end_nothing_is_left_to_spare() -> None:
    for said in ("Bad Request", "response_format", "tools and reasoning and stream"):
        form, question, steps = FULL, ask("x", SCHEMA, TOOL), 0
        while (next_form := narrowed(form, question, said)) is not None:
            form, steps = next_form, steps + 1
            assert steps < 10
        assert form != FULL


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 40000 tokens",
        "the request exceeds the available context size, try increasing it",
        "max_tokens is too large: 32768. This model supports at most 16384 completion tokens",
        "'max_tokens' or 'max_completion_tokens' is too large: 32768.",
        "prompt is longer than n_ctx",
    ],
)
def test_what_does_not_fit(said: str) -> None:
    assert is_too_long(said)
    assert not is_too_long("Unsupported parameter: 'max_tokens' is not supported with this model.")
