"""The scripted endpoint speaks the API as the official client understands it: what tests build on is no invention of its own."""

from __future__ import annotations

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.llm.answers import Answer, broken, call, dropped, fail, refuse, say, slow, truncated
from tests.llm.endpoint import ScriptedEndpoint

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


def official(there: ScriptedEndpoint) -> openai.OpenAI:
    return openai.OpenAI(base_url=there.url, api_key="k", max_retries=0)


@pytest.mark.parametrize(
    "answer", [say("a €", usage=(5, 6)), call("f", {"x": 1}), refuse("no"), truncated("a"), slow(say("b"), 0.001)]
)
def test_both_apis_whole_and_streamed(answer: Answer) -> None:
    with ScriptedEndpoint(then=answer) as there:
        client = official(there)
        choice = client.chat.completions.create(model="m", messages=HI).choices[0]
        streamed = ""
        pieces = client.chat.completions.create(
            model="m", messages=HI, stream=True, stream_options={"include_usage": True}
        )
        for piece in pieces:
            if piece.choices:
                streamed += piece.choices[0].delta.content or piece.choices[0].delta.refusal or ""
                last = piece.choices[0].finish_reason
            else:
                assert piece.usage is not None and answer.usage in (None, (5, piece.usage.completion_tokens))
        assert last == choice.finish_reason
        response = client.responses.create(model="m", input="hi")
        with client.responses.stream(model="m", input="hi") as events:
            *_, last_event = events
        assert last_event.type in ("response.completed", "response.incomplete")
        final = last_event.response
    said = answer.text or answer.refusal
    assert (choice.message.content or choice.message.refusal or "") == streamed == said
    assert response.output_text == final.output_text == answer.text
    assert (response.status == "incomplete") == (choice.finish_reason == "length") == (answer.finish == "length")
    if answer.calls:
        assert choice.message.tool_calls is not None and choice.message.tool_calls[0].type == "function"
        assert choice.message.tool_calls[0].function.arguments == answer.calls[0].arguments
        for value in (response, final):
            (item,) = value.output
            assert item.type == "function_call" and item.arguments == answer.calls[0].arguments


def test_errors() -> None:
    script = [fail(401), fail(429, retry_after=2.0), fail(500), dropped(), broken()]
    with ScriptedEndpoint(script, rejects=("response_format",)) as there:
        client = official(there)
        for kind in (
            openai.AuthenticationError,
            openai.RateLimitError,
            openai.InternalServerError,
            openai.APIConnectionError,
        ):
            with pytest.raises(kind):
                client.chat.completions.create(model="m", messages=HI)
        with pytest.raises(openai.APIError, match="overloaded"):
            list(client.chat.completions.create(model="m", messages=HI, stream=True))
        with pytest.raises(openai.BadRequestError, match="response_format") as error:
            client.chat.completions.create(model="m", messages=HI, response_format={"type": "json_object"})
        assert error.value.param == "response_format" and there.left == 0
        assert [m.id for m in client.models.list()] == ["coder"]


def test_what_a_test_can_look_at() -> None:
    with ScriptedEndpoint([lambda request: say(request.text.upper())], key="k") as there:
        completion = official(there).chat.completions.create(model="m", messages=HI)
        assert completion.choices[0].message.content == "M\nUSER\nHI"
        with pytest.raises(openai.APIStatusError):
            official(there).chat.completions.create(model="m", messages=HI)
        (request, after) = there.requests
        assert request.key == "k" and request.api == "chat" and not request.streamed and request.ended == "answered"
        assert "hi" in there.sent and there.unscripted == 1 and after.at >= request.at
    with pytest.raises(openai.APIConnectionError):
        official(there).models.list()
