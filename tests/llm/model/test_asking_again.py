"""What the client does about errors, pauses, lost connections and parameters that an endpoint does not take."""

from __future__ import annotations

import datetime
import email.utils
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from stitchcuda.agent.model.accounting import Budget
from stitchcuda.agent.model.client import Patience
from stitchcuda.agent.model.connection import retry_after
from stitchcuda.agent.model.messages import BudgetSpent, EndpointFailed, TimedOut, Unreachable

from tests.llm.answers import Answer, broken, call, dropped, fail, hang, late, redirect, say, slow
from tests.llm.endpoint import Request, ScriptedEndpoint
from tests.llm.model.asking import APIS, FORMS, QUICK, SCHEMA, TOOL, ask, talk

both = pytest.mark.parametrize(("api", "stream"), FORMS)


@both
@pytest.mark.parametrize(
    "answer",
    [fail(500), fail(502), fail(503), fail(529), fail(408), dropped(), dropped(part=0), broken(), dropped(part=0.9)],
    ids=["500", "502", "503", "529", "408", "dropped", "dropped at once", "broken", "dropped late"],
)
def test_what_passes_is_asked_again(answer: Answer, api: str, stream: bool) -> None:
    with ScriptedEndpoint([answer, answer, say("good")]) as there:
        one = talk(there, api, stream)
        assert one.client.ask(ask()).text == "good"
        assert len(there.requests) == 3 and there.requests[0].json == there.requests[2].json
        assert len(one.told) == 2 and all("asking again in" in told for told in one.told)


def test_a_reply_whose_count_is_lost_is_a_reply() -> None:
    """A stream that breaks off behind the reply's end."""
    with ScriptedEndpoint([dropped(say("whole"), 0.9)]) as there:
        one = talk(there)
        reply = one.client.ask(ask())
        assert reply.text == "whole" and reply.usage.estimated and there.requests[0].ended == "dropped"
        assert not one.told


@pytest.mark.parametrize("api", APIS)
def test_a_stream_that_ends_early_is_no_reply(api: str) -> None:
    """Properly closed, so that nothing but its content tells."""
    early = replace(say("half of it"), spoil=lambda body: body[: body.index(b"\n\n", len(body) // 2) + 2])
    with ScriptedEndpoint([early, say("good")]) as there:
        one = talk(there, api)
        assert one.client.ask(ask()).text == "good" and "ended before" in one.told[0]


@both
@pytest.mark.parametrize(
    ("answer", "kind"),
    [(fail(500), EndpointFailed), (fail(429), EndpointFailed), (dropped(), Unreachable), (broken(), EndpointFailed)],
    ids=["500", "429", "dropped", "broken"],
)
def test_it_gives_up(answer: Answer, kind: type[Exception], api: str, stream: bool) -> None:
    expected = (Unreachable, EndpointFailed) if stream else kind
    with ScriptedEndpoint(then=answer) as there:
        with pytest.raises(expected, match=r"\(4 attempts\)"):
            talk(there, api, stream, patience=Patience(attempts=4, first=0.005)).client.ask(ask())
        assert len(there.requests) == 4


@pytest.mark.parametrize("status", [400, 404, 413, 418, 422])
def test_what_does_not_pass_is_not_asked_again(status: int) -> None:
    with ScriptedEndpoint(then=fail(status, "the model is not here")) as there:
        with pytest.raises(EndpointFailed, match=f"answers {status}: the model is not here"):
            talk(there).client.ask(ask())
        assert len({r.body for r in there.requests}) == len(there.requests) <= 2


def test_money_that_ran_out_is_no_reason_to_wait() -> None:
    with ScriptedEndpoint(then=fail(429, "You exceeded your current quota", code="insufficient_quota")) as there:
        with pytest.raises(EndpointFailed, match="quota"):
            talk(there).client.ask(ask())
        assert len(there.requests) == 1


@pytest.mark.parametrize("asked", [0.3, 0.0])
def test_the_pause_that_the_endpoint_asks_for(asked: float) -> None:
    with ScriptedEndpoint([fail(429, retry_after=asked), say("x")]) as there:
        talk(there, patience=Patience(first=0.01)).client.ask(ask())
        first, second = (r.at for r in there.requests)
    assert asked <= second - first < asked + 3.0


def test_a_pause_that_is_too_long() -> None:
    with ScriptedEndpoint(then=fail(429, retry_after=3600)) as there:
        begun = time.monotonic()
        with pytest.raises(EndpointFailed, match="asks to wait 3600 s"):
            talk(there, total=60.0, budget=Budget(seconds=1e5)).client.ask(ask())
        with pytest.raises(BudgetSpent, match="beyond the budget of time") as spent:
            talk(there, budget=Budget(seconds=30)).client.ask(ask())
        assert spent.value.what == "time" and len(there.requests) == 2
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0.0),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_to_wait_for() -> None:
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=90)
    found = retry_after({"retry-after": email.utils.format_datetime(moment, usegmt=True)})
    assert found is not None and 80 < found <= 90


def test_pauses_grow_and_differ() -> None:
    with ScriptedEndpoint(then=fail(503)) as there:
        with pytest.raises(EndpointFailed):
            talk(there, patience=Patience(attempts=5, first=0.1)).client.ask(ask())
        times = [r.at for r in there.requests]
    pauses = [b - a for a, b in pairwise(times)]
    assert all(pause >= 0.05 * 2**k for k, pause in enumerate(pauses))


def test_nobody_is_there() -> None:
    with ScriptedEndpoint() as gone:
        pass
    one = talk(gone)
    with pytest.raises(Unreachable, match=r"no connection .*Is the endpoint running"):
        one.client.ask(ask())
    assert len(one.told) == 2 and one.ledger.spent.tokens == 0


@both
@pytest.mark.parametrize(
    "answer",
    [hang(), hang(say("abcdef" * 20), 0.5), slow(say("abcdef" * 20), 0.05), late(say("x"), 30)],
    ids=["silent", "stalls", "slow", "late"],
)
def test_time_is_limited(answer: Answer, api: str, stream: bool) -> None:
    with ScriptedEndpoint([answer]) as there:
        begun = time.monotonic()
        with pytest.raises(TimedOut, match=r"in 0\.4 s"):
            talk(there, api, stream, total=0.4).client.ask(ask())
        assert time.monotonic() - begun < 5
        assert there.requests[0].left_within(5)


@both
def test_silence_is_limited(api: str, stream: bool) -> None:
    with ScriptedEndpoint([hang(say("abcdef" * 20), 0.5), say("x")]) as there:
        one = talk(there, api, stream, silence=0.2)
        assert one.client.ask(ask()).text == "x"
        assert "fell silent" in one.told[0]


def test_the_budget_of_time_ends_a_request() -> None:
    with ScriptedEndpoint([hang()]) as there:
        with pytest.raises(BudgetSpent) as spent:
            talk(there, budget=Budget(seconds=0.4)).client.ask(ask())
        assert spent.value.what == "time" and there.requests[0].left_within(5)


@both
@pytest.mark.parametrize("status", [307, 308, 301])
def test_no_redirect_is_followed(status: int, api: str, stream: bool) -> None:
    with ScriptedEndpoint() as elsewhere, ScriptedEndpoint([redirect(elsewhere.url, status)]) as there:
        with pytest.raises(EndpointFailed, match="redirects to"):
            talk(there, api, stream).client.ask(ask())
        assert not elsewhere.all_requests and len(there.requests) == 1


# -------------------------------------------------------------------------------------------- parameters that are not taken


@both
@pytest.mark.parametrize(
    ("rejected", "gone"),
    [
        (("response_format", "text.format"), "the schema"),
        (("tools",), "tools"),
        (("stream",), "a stream"),
        (("stream_options",), "the count"),
        (("reasoning_effort", "reasoning"), "an effort"),
        (("store",), "store"),
        (("max_tokens",), "max_tokens"),
        (("response_format", "text.format", "tools", "stream", "reasoning_effort", "reasoning", "store"), "tools"),
    ],
    ids=["schema", "tools", "stream", "stream_options", "reasoning", "store", "max_tokens", "everything"],
)
def test_what_is_not_taken_is_left_out(rejected: tuple[str, ...], gone: str, api: str, stream: bool) -> None:
    with ScriptedEndpoint([say("one"), say("two")], rejects=rejected) as there:
        one = talk(there, api, stream, reasoning="low")
        question = ask("x", SCHEMA, TOOL)
        assert one.client.ask(question).text == "one"
        tried = len(there.all_requests)
        assert one.client.ask(question).text == "two"
        assert len(there.all_requests) == tried + 1, "what was found out is not forgotten"
        sent = there.requests[-1].json
        assert not any(name in sent for name in rejected)
        if tried > 1:
            assert any(gone in told for told in one.told)
        kept = {"tools", "reasoning_effort", "reasoning", "stream"} - set(rejected)
        assert {"tools", "stream"} & kept & set(sent) == {"tools", "stream"} & kept - (
            {"stream"} if not stream else set()
        )


@pytest.mark.parametrize("api", APIS)
def test_a_refusal_without_a_reason(api: str) -> None:
    """Nothing in the error says what it does not take: all that can be spared goes."""

    def plain_only(request: Request) -> Answer:
        extra = {"response_format", "text", "tools", "reasoning_effort", "reasoning", "stream_options"} & set(
            request.json
        )
        return fail(400, "Bad Request") if extra else say("plain")

    with ScriptedEndpoint(then=plain_only) as there:
        one = talk(there, api, reasoning="low")
        assert one.client.ask(ask("x", SCHEMA, TOOL)).text == "plain"
        assert len(there.requests) == 2


def test_a_refusal_of_the_request_itself() -> None:
    with ScriptedEndpoint(then=fail(400, "Invalid value: 'messages'")) as there:
        with pytest.raises(EndpointFailed, match="Invalid value: 'messages'"):
            talk(there).client.ask(ask("x", SCHEMA, TOOL))
        assert len(there.requests) <= 3


@pytest.mark.parametrize("missing", APIS)
@pytest.mark.parametrize("status", [404, 405])
def test_the_other_api_is_tried(missing: str, status: int) -> None:
    offered = [a for a in APIS if a != missing]
    with ScriptedEndpoint([say("x"), say("y")], apis=offered) as there:
        client = talk(there, "auto").client
        assert client.ask(ask()).text == "x" and client.ask(ask()).text == "y"
        assert len(there.all_requests) == (3 if missing == "chat" else 2)


def test_an_api_that_was_chosen_is_kept() -> None:
    with ScriptedEndpoint([say("x")], apis=("responses",)) as there:
        with pytest.raises(EndpointFailed, match="answers 404"):
            talk(there, "chat").client.ask(ask())
        assert not there.requests


def test_a_small_context_gets_shorter_replies() -> None:
    def small(request: Request) -> Answer:
        most = request.json["max_tokens"]
        if most > 6000:
            return fail(400, f"This model's maximum context length is 8192 tokens, however you requested {most} tokens")
        return say("fits")

    with ScriptedEndpoint(then=small) as there:
        one = talk(there)
        assert one.client.ask(ask()).text == "fits" and one.client.ask(ask()).text == "fits"
        assert [r.json["max_tokens"] for r in there.requests] == [32768, 16384, 8192, 4096, 4096]
    with ScriptedEndpoint(then=fail(400, "the prompt exceeds the maximum context length")) as there:
        with pytest.raises(EndpointFailed, match="maximum context length"):
            talk(there).client.ask(ask())
        assert len(there.requests) < 10


def test_the_newer_name_of_the_limit() -> None:
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    with ScriptedEndpoint([fail(400, said, param="max_tokens"), call("symbol"), say("x")]) as there:
        client = talk(there, patience=QUICK).client
        client.ask(ask("x", None, TOOL))
        client.ask(ask())
        assert ["max_completion_tokens" in r.json for r in there.requests] == [False, True, True]
