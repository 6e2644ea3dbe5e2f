"""A cancelled request ends within a second and takes its connection with it, wherever it waits."""

from __future__ import annotations

import threading
import time

import pytest
from stitchcuda.agent.model.client import Patience
from stitchcuda.gpu_validate.runs import Cancelled

from tests.llm.answers import Answer, fail, hang, late, say, slow
from tests.llm.endpoint import ScriptedEndpoint
from tests.llm.model.asking import FORMS, ask, talk

LONG = say("never heard as a whole " * 50)


@pytest.mark.parametrize(("api", "stream"), FORMS)
@pytest.mark.parametrize(
    "answer",
    [hang(), hang(LONG, 0.5), slow(LONG, 0.01), late(LONG, 60), fail(429, retry_after=30)],
    ids=["silent", "stalls", "slow", "late", "pause"],
)
def test_it_ends_within_a_second(answer: Answer, api: str, stream: bool) -> None:
    threads = threading.active_count()
    with ScriptedEndpoint(then=answer) as there:
        asked = threading.Event()
        at: list[float] = []

        def cancelled() -> bool:
            if not asked.is_set():
                return False
            at[:] = at or [time.monotonic()]
            return True

        threading.Timer(0.3, asked.set).start()
        one = talk(there, api, stream, cancelled=cancelled, patience=Patience(longest=60))
        with pytest.raises(Cancelled):
            one.client.ask(ask())
        assert time.monotonic() - at[0] < 1.0
        (request,) = there.requests
        if answer.status is None:
            assert request.left_within(5), "the endpoint sees that nobody listens any more"
    assert threading.active_count() <= threads + 1  # the timer may still be ending


def test_the_list_of_models_too() -> None:
    with ScriptedEndpoint(models_answer=hang()) as there:
        begun = time.monotonic()
        with pytest.raises(Cancelled):
            talk(there, model="", cancelled=lambda: time.monotonic() > begun + 0.3).client.ask(ask())
        assert time.monotonic() - begun < 3 and there.all_requests[0].left_within(5)


def test_nothing_is_sent_when_it_was_cancelled_before() -> None:
    with ScriptedEndpoint([say("x")]) as there:
        with pytest.raises(Cancelled):
            talk(there, cancelled=lambda: True).client.ask(ask())
        assert not there.all_requests


def test_a_lost_request_is_counted() -> None:
    """A cancelled stream costs what was sent and what came until then."""
    with ScriptedEndpoint([slow(LONG, 0.002)]) as there:
        begun = time.monotonic()
        one = talk(there, cancelled=lambda: time.monotonic() > begun + 0.6)
        with pytest.raises(Cancelled):
            one.client.ask(ask())
        spent = one.ledger.spent
    assert spent.requests == 1 and 0 < spent.tokens == spent.estimated < 10_000
