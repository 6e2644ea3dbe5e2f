"""What the client sends and what it makes of replies, against a real server, in both APIs, streaming and not."""

from __future__ import annotations

import pytest
from stitchcuda.agent.model.messages import (
    Ask,
    EndpointFailed,
    Finish,
    Message,
    Speaker,
    ToolCall,
    Unauthorized,
    Unreachable,
)

from tests.llm.answers import (
    Answer,
    call,
    calls,
    empty,
    enormous,
    fail,
    filtered,
    malformed,
    not_utf8,
    raw,
    refuse,
    say,
    slow,
    truncated,
)
from tests.llm.endpoint import ScriptedEndpoint
from tests.llm.model.asking import FORMS, KEY, SCHEMA, TOOL, ask, talk

both = pytest.mark.parametrize(("api", "stream"), FORMS)


@both
def test_a_reply(api: str, stream: bool) -> None:
    with ScriptedEndpoint(
        [say("fused: 漢字 €\n", usage=(120, 30), cached=20, reasoning=5, model="coder-2")], key=KEY
    ) as there:
        reply = talk(there, api, stream).client.ask(ask())
        (request,) = there.all_requests
    assert reply.text == "fused: 漢字 €\n" and reply.calls == () and reply.finish is Finish.STOP
    assert (reply.usage.input, reply.usage.cached, reply.usage.output, reply.usage.reasoning) == (120, 20, 30, 5)
    assert not reply.usage.estimated and reply.model == "coder-2" and 0 < reply.seconds < 20
    assert request.path == ("/v1/chat/completions" if api == "chat" else "/v1/responses")
    assert request.streamed is stream and request.ended == "answered"
    assert {"You write CUDA.", "Make it faster: x < y € 漢"} <= set(request.text.split("\n"))


@both
def test_a_stream_that_comes_byte_by_byte(api: str, stream: bool) -> None:
    with ScriptedEndpoint([slow(say("漢字 €"), 0.0002), slow(call("symbol", {"name": "漢"}), 0.0002)]) as there:
        client = talk(there, api, stream).client
        assert client.ask(ask()).text == "漢字 €"
        assert client.ask(ask("", None, TOOL)).calls == (ToolCall("call_1", "symbol", '{"name": "\\u6f22"}'),)


@both
def test_tool_calls_and_their_answers(api: str, stream: bool) -> None:
    script = [calls(("symbol", {"name": "f"}), ("symbol", '{"name": broken'), ids=("one", "two")), say("done")]
    with ScriptedEndpoint(script) as there:
        client = talk(there, api, stream).client
        first = ask("look", None, TOOL)
        reply = client.ask(first)
        assert reply.finish is Finish.TOOLS
        assert reply.calls == (
            ToolCall("one", "symbol", '{"name": "f"}'),
            ToolCall("two", "symbol", '{"name": broken'),
        )
        answers = (
            Message(Speaker.ASSISTANT, reply.text, reply.calls),
            Message(Speaker.TOOL, "void f()", call="one"),
            Message(Speaker.TOOL, "no JSON", call="two"),
        )
        assert client.ask(Ask("coder", "coder-1", (*first.messages, *answers), None, (TOOL,))).text == "done"
        sent = there.requests[1].json
    if api == "chat":
        assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "tool", "tool"]
        assert [c["id"] for c in sent["messages"][2]["tool_calls"]] == ["one", "two"]
        assert sent["messages"][3] == {"role": "tool", "content": "void f()", "tool_call_id": "one"}
        assert sent["tools"][0]["function"]["name"] == "symbol"
    else:
        kinds = [item.get("type", item.get("role")) for item in sent["input"]]
        assert kinds == ["system", "user", "function_call", "function_call", *["function_call_output"] * 2]
        assert sent["input"][4] == {"type": "function_call_output", "call_id": "one", "output": "void f()"}
        assert sent["tools"][0]["name"] == "symbol" and sent["store"] is False


@both
def test_the_schema_and_the_effort_are_sent(api: str, stream: bool) -> None:
    with ScriptedEndpoint([say('{"summary": "s"}')]) as there:
        talk(there, api, stream, reasoning="high").client.ask(ask("x", SCHEMA))
        sent = there.requests[0].json
    if api == "chat":
        schema = sent["response_format"]["json_schema"]
        assert sent["response_format"]["type"] == "json_schema" and sent["reasoning_effort"] == "high"
        assert sent["max_tokens"] > 1000
    else:
        schema = sent["text"]["format"]
        assert schema["type"] == "json_schema" and sent["reasoning"] == {"effort": "high"}
        assert sent["max_output_tokens"] > 1000
    assert schema["schema"] == SCHEMA and schema["strict"] is True and schema["name"] == "coder"


@both
@pytest.mark.parametrize(
    ("answer", "text", "finish"),
    [
        (truncated("half"), "half", Finish.LENGTH),
        (refuse("I will not."), "I will not.", Finish.REFUSED),
        (filtered("so"), "so", Finish.REFUSED),
        (empty(), "", Finish.STOP),
        (say("<think>hm { }</think>\n\nyes"), "yes", Finish.STOP),
        (say("half a character \ud83d"), "half a character \ufffd", Finish.STOP),
    ],
    ids=["truncated", "refused", "filtered", "empty", "thoughts", "half a character"],
)
def test_how_replies_end(answer: Answer, text: str, finish: Finish, api: str, stream: bool) -> None:
    with ScriptedEndpoint([answer]) as there:
        reply = talk(there, api, stream).client.ask(ask())
        assert len(there.requests) == 1
    assert (reply.text, reply.finish) == (text, finish)
    assert reply.text.encode("utf-8").decode() == text


@both
def test_an_enormous_reply_is_cut_or_refused(api: str, stream: bool) -> None:
    with ScriptedEndpoint([enormous()]) as there:
        one = talk(there, api, stream)
        if stream:
            reply = one.client.ask(ask())
            assert reply.finish is Finish.LENGTH and 1000 < len(reply.text) < 1 << 20
            assert any("cut off after" in told for told in one.told)
        else:
            with pytest.raises(EndpointFailed, match="larger than"):
                one.client.ask(ask())
        assert len(there.requests) == 1 and one.ledger.spent.tokens < 100_000


@both
def test_a_reply_in_too_many_bytes(api: str, stream: bool) -> None:
    """A stream spends a few hundred on each word; what is cut off may not pass for a whole reply."""
    with ScriptedEndpoint([say("word " * 60)]) as there:
        client = talk(there, api, stream, largest_reply=4000 if stream else 400).client
        if stream:
            reply = client.ask(ask())
            assert reply.finish is Finish.LENGTH and "word " * 60 != reply.text
        else:
            with pytest.raises(EndpointFailed, match="larger than"):
                client.ask(ask())


@pytest.mark.parametrize("stream", [True, False])
def test_an_error_page_without_end_is_not_read(stream: bool) -> None:
    page = raw(b"<html>" * 10_000_000, status=400, content_type="text/html")
    with ScriptedEndpoint([page]) as there:
        with pytest.raises(EndpointFailed) as failed:
            talk(there, "chat", stream, largest_reply=10_000).client.ask(ask())
        assert there.requests[0].left_within(10)
    assert len(str(failed.value)) < 1000


@both
@pytest.mark.parametrize(
    "answer",
    [
        malformed(),
        not_utf8(),
        raw(b""),
        raw(b"[]"),
        raw(b'{"choices": []}'),
        raw(b'{"choices": [{"message": null}], "output": 3}'),
        raw(b"<html>sign in</html>", content_type="text/html"),
        raw(b"[" * 100_000),
        raw(b"data: 3\n\n", content_type="text/event-stream"),
        raw(b"data: {}\n\ndata: [DONE\n\n", content_type="text/event-stream"),
    ],
    ids=["json", "utf8", "empty", "list", "no choices", "no message", "html", "deep", "number", "half done"],
)
def test_what_is_no_reply_is_asked_for_again(answer: Answer, api: str, stream: bool) -> None:
    with ScriptedEndpoint([answer, say("good")]) as there:
        one = talk(there, api, stream)
        assert one.client.ask(ask()).text == "good"
        assert len(there.requests) == 2 and len(one.told) == 1
    with ScriptedEndpoint(then=answer) as there:
        one = talk(there, api, stream)
        with pytest.raises((EndpointFailed, Unreachable), match="3 attempts"):
            one.client.ask(ask())
        assert len(there.requests) == 3


def test_a_reply_in_another_form_than_asked_for() -> None:
    """A stream where none was wanted, and the other way round."""
    with ScriptedEndpoint([say("x")]) as there:
        talk(there, "chat", False).client.ask(ask())
        whole = there.requests[0].json
    assert "stream" not in whole
    body = b'data: {"choices": [{"delta": {"content": "ab"}}]}\n\ndata: [DONE]\n\n'
    with ScriptedEndpoint([raw(body, content_type="text/event-stream; charset=utf-8")]) as there:
        assert talk(there, "chat", False).client.ask(ask()).text == "ab"
    with ScriptedEndpoint([raw(b'{"choices": [{"message": {"content": [{"type": "text", "text": "ab"}]}}]}')]) as there:
        assert talk(there, "chat", True).client.ask(ask()).text == "ab"


@pytest.mark.parametrize(("status", "named"), [(401, "does not take the key"), (403, "does not take the key")])
def test_a_key_that_is_not_taken(status: int, named: str) -> None:
    with ScriptedEndpoint([fail(status, f"Incorrect API key provided: {KEY}")]) as there:
        with pytest.raises(Unauthorized, match=named) as failed:
            talk(there).client.ask(ask())
        assert len(there.requests) == 1
    assert KEY not in str(failed.value) and "STITCHCUDA_LLM_KEY" in str(failed.value)


def test_a_key_that_cannot_be_one() -> None:
    with ScriptedEndpoint() as there:
        for key in ("clé-secrète", "two\nlines"):
            with pytest.raises(Unauthorized) as failed:
                talk(there, key=key).client.ask(ask())
            assert key not in str(failed.value)
        assert not there.all_requests


def test_the_only_model_is_used() -> None:
    with ScriptedEndpoint([say("x"), say("y")], models=("qwen",)) as there:
        client = talk(there, model="").client
        assert client.ask(ask()).model == "qwen" and client.ask(ask()).model == "qwen"
        assert [r.path for r in there.all_requests].count("/v1/models") == 1


@pytest.mark.parametrize(
    ("models", "named"),
    [(("a", "b"), "has a, b; name one"), ((), "has none"), (("m",) * 3, None)],
    ids=["two", "none", "twins"],
)
def test_several_models_are_named(models: tuple[str, ...], named: str | None) -> None:
    with ScriptedEndpoint([say("x")], models=models) as there:
        client = talk(there, model="").client
        if named is None:
            assert client.ask(ask()).text == "x"
            return
        with pytest.raises(EndpointFailed, match=named):
            client.ask(ask())
        assert not there.requests


@pytest.mark.parametrize(
    "answer", [raw(b"<html>"), raw(b"{}"), raw(b'{"data": 3}'), raw(b'{"data": [{}]}'), raw(b"\xff\xfe")]
)
def test_a_list_of_models_that_is_none(answer: Answer) -> None:
    with ScriptedEndpoint(models_answer=answer) as there, pytest.raises(EndpointFailed, match="no list of models"):
        talk(there, model="").client.ask(ask())


@pytest.mark.parametrize("counted", [True, False])
@both
def test_tokens_are_counted_or_estimated(counted: bool, api: str, stream: bool) -> None:
    with ScriptedEndpoint([say("abc", counted=counted, usage=(50, 2))]) as there:
        one = talk(there, api, stream)
        reply = one.client.ask(ask())
        assert reply.usage.estimated is not counted
        spent = one.ledger.spent
        assert spent.requests == 1 and spent.tokens == reply.usage.input + reply.usage.output
        if counted:
            assert spent.tokens == 52 and spent.estimated == 0
        else:
            assert spent.tokens == spent.estimated >= 3 + len(there.requests[0].text.encode()) // 4
