"""A cancelled request ends within a second and takes its connection with it, wherever it waits."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from stitchcuda.agent.model.accounting import UNSAID, Ledger
from stitchcuda.agent.model.client import Client, Patience
from stitchcuda.agent.model.endpoint import Endpoint
from stitchcuda.agent.model.waiting import run
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
        at: list[float] = []

        def cancelled() -> bool:
            if not there.requests or time.monotonic() < there.requests[0].at + 0.2:
                return False
            at[:] = at or [time.monotonic()]
            return True

        one = talk(there, api, stream, cancelled=cancelled, patience=Patience(longest=60))
        with pytest.raises(Cancelled):
            one.client.ask(ask())
        assert time.monotonic() - at[0] < 1.0
        (request,) = there.requests
        if answer.status is None:
            assert request.left_within(5), "the endpoint sees that nobody listens any more"
    assert threading.active_count() <= threads + 1  # one of the endpoint's may still be ending


def later(there: ScriptedEndpoint, seconds: float) -> bool:
    """Whether that much time has passed since the first request came."""
    return bool(there.all_requests) and time.monotonic() > there.all_requests[0].at + seconds


def test_the_list_of_models_too() -> None:
    with ScriptedEndpoint(models_answer=hang()) as there:
        with pytest.raises(Cancelled):
            talk(there, model="", cancelled=lambda: later(there, 0.2)).client.ask(ask())
        assert time.monotonic() - there.all_requests[0].at < 2 and there.all_requests[0].left_within(5)


def test_nothing_is_sent_when_it_was_cancelled_before() -> None:
    with ScriptedEndpoint([say("x")]) as there:
        with pytest.raises(Cancelled):
            talk(there, cancelled=lambda: True).client.ask(ask())
        assert not there.all_requests


def test_a_lost_request_is_counted() -> None:
    """A cancelled stream costs what was sent and what came until then."""
    with ScriptedEndpoint([slow(LONG, 0.002)]) as there:
        one = talk(there, cancelled=lambda: later(there, 0.3))
        with pytest.raises(Cancelled):
            one.client.ask(ask())
        spent = one.ledger.spent
    assert spent.requests == 1 and 0 < spent.tokens == spent.estimated < 10_000


def test_a_name_that_is_looked_up_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's lookup cannot be cancelled; it is left behind."""
    answered = threading.Event()

    def stuck(*arguments: object, **named: object) -> list[object]:
        answered.wait(20)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    endpoint = Endpoint("http://model.example.org/v1", "coder")
    begun = time.monotonic()
    client = Client(endpoint, "", Ledger(UNSAID), cancelled=lambda: time.monotonic() > begun + 0.5)
    with pytest.raises(Cancelled):
        client.ask(ask())
    assert time.monotonic() - begun < 5
    answered.set()


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_an_interrupt_from_the_keyboard_leaves_nothing_behind() -> None:
    script = (
        "import os, signal, sys, threading, time; sys.path.insert(0, '.')\n"
        "from tests.llm.answers import hang\n"
        "from tests.llm.endpoint import ScriptedEndpoint\n"
        "from tests.llm.model.asking import ask, talk\n"
        "with ScriptedEndpoint([hang()]) as there:\n"
        "    def interrupt():\n"
        "        while not there.requests: time.sleep(0.01)\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    threading.Thread(target=interrupt).start()\n"
        "    try:\n"
        "        talk(there).client.ask(ask())\n"
        "    except KeyboardInterrupt:\n"
        "        print('left', there.requests[0].left_within(5))\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, cwd=root, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "left True\n", "")


@pytest.mark.filterwarnings("error")
def test_an_error_at_the_moment_of_cancelling_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            raise RuntimeError("closing failed, too")

    looks = iter([False, True])
    with pytest.raises(Cancelled):
        run(fails(), lambda: next(looks, True))
    gc.collect()
    assert not caplog.records
