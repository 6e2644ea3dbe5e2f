"""Asks an endpoint: finds out what it offers, asks again with growing pauses where that can help, counts every token, and stays
inside of the budgets and the time.

What goes wrong becomes a ModelError that says what was asked of whom, what came back and what to do. What is asked again is told.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from stitchcuda.agent.model.accounting import Allowance, Ledger, described, input_at_most
from stitchcuda.agent.model.connection import Connection, Failure, Opened, open_connection
from stitchcuda.agent.model.endpoint import NO_KEY, Api, Endpoint
from stitchcuda.agent.model.events import EventReader
from stitchcuda.agent.model.messages import (
    Ask,
    BudgetSpent,
    EndpointFailed,
    Finish,
    ModelError,
    Reply,
    TimedOut,
    Unauthorized,
    Unreachable,
    Usage,
)
from stitchcuda.agent.model.offering import is_too_long, narrowed
from stitchcuda.agent.model.waiting import run
from stitchcuda.agent.model.wire import Answered, ChatStream, Form, ResponseStream, body_of, read_whole

SHORTEST_LIMIT = 1024  # tokens of a reply; a context that has no room for as many is too small
_CHARS_A_TOKEN = 16  # more than tokens have; a reply that is longer ignores the limit that it was given
_SHOWN = 300  # characters of an endpoint's message


@dataclass(frozen=True, slots=True)
class Patience:
    """How often one request is sent at most, and how long is waited before it is sent again: `first` seconds, doubled each time,
    at most `longest`, where the endpoint does not say."""

    attempts: int = 6
    connects: int = 3  # where nothing answers
    unreadable: int = 3  # where what answers makes no sense
    first: float = 0.5
    longest: float = 30.0


@dataclass
class _Attempt:
    """One attempt as far as it got: for counting what it may have cost."""

    input: int
    allowance: Allowance
    measured: bool  # whether `received`, the bytes that the model said at most, is known
    received: int = 0
    cut: bool = False

    def lost(self) -> Usage:
        """Without its reply: what was received of a stream, else all that was allowed."""
        output = min(self.received, self.allowance.output) if self.measured else self.allowance.output
        return Usage(self.input, output=output, estimated=True)


class Client:
    """A Model. `key` is sent to the endpoint alone; `tell` hears a sentence whenever something is asked again or in another way."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: str,
        ledger: Ledger,
        *,
        cancelled: Callable[[], bool] = lambda: False,
        tell: Callable[[str], None] = lambda sentence: None,
        patience: Patience = Patience(),
    ) -> None:
        self._endpoint, self._key, self._ledger = endpoint, key or NO_KEY, ledger
        self._cancelled, self._tell, self._patience = cancelled, tell, patience
        self._model = endpoint.model
        self._form = first_form(endpoint)
        self._other_api = endpoint.api is Api.AUTO  # whether the other API is still to be tried
        self._longest: int | None = None  # tokens of a reply, where the model's context has no room for more

    @property
    def form(self) -> Form:
        """What the endpoint was found to offer so far."""
        return self._form

    def ask(self, ask: Ask) -> Reply:
        """Raises ModelError, Cancelled."""
        self._check_key()
        return run(self._ask(ask), self._cancelled)

    def models(self) -> tuple[str, ...]:
        """Names of the models that the endpoint lists. Raises ModelError, Cancelled."""
        self._check_key()
        return run(self._list(), self._cancelled)

    def _check_key(self) -> None:
        if not (self._key.isascii() and self._key.isprintable()):
            raise Unauthorized("the key holds characters that no key has; was it copied as a whole and alone?")

    # ----------------------------------------------------------------------------------------------------------- the model

    async def _list(self) -> tuple[str, ...]:
        async with open_connection(self._endpoint, self._key) as connection:
            return await self._listed(connection)

    async def _listed(self, connection: Connection) -> tuple[str, ...]:
        endpoint = self._endpoint
        try:
            async with asyncio.timeout(min(endpoint.total, 60.0)):
                value = json.loads(await connection.models())
            rows = value["data"] if isinstance(value, dict) else value
            return tuple(dict.fromkeys(str(row["id"]) for row in rows))
        except TimeoutError:
            raise TimedOut(f"{endpoint.base_url} does not say in time which models it has") from None
        except Failure as failure:
            raise self._error(failure, "its list of models") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise EndpointFailed(
                f"{endpoint.base_url}/models is no list of models; is this the address of an OpenAI-compatible API? "
                "It often ends with /v1"
            ) from None

    async def _chosen(self, connection: Connection) -> str:
        if not self._model:
            names = await self._listed(connection)
            if len(names) != 1:
                has = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") if names else "none"
                raise EndpointFailed(
                    f"which model? {self._endpoint.base_url} has {has}; name one ([llm] model, or STITCHCUDA_LLM_MODEL)"
                )
            self._model = names[0]
        return self._model

    # --------------------------------------------------------------------------------------------------------- one request

    async def _ask(self, ask: Ask) -> Reply:
        started = time.monotonic()
        async with open_connection(self._endpoint, self._key) as connection:
            model = await self._chosen(connection)
            tries = 0
            while True:
                tries += 1
                form = replace(self._form, model=model)
                attempt = self._attempt(ask, form)
                try:
                    answered = await self._once(connection, ask, form, attempt, started)
                except Failure as failure:
                    if not failure.status and failure.connected:
                        self._ledger.count(attempt.lost())
                    if self._adapted(ask, failure):
                        tries -= 1
                        continue
                    await self._pause(failure, tries, started)
                    continue
                except BaseException:  # cancelled, or out of time
                    self._ledger.count(attempt.lost())
                    raise
                usage = answered.usage or Usage(
                    attempt.input, output=min(attempt.received, attempt.allowance.output), estimated=True
                )
                usage = self._ledger.count(usage)
                finish = Finish.LENGTH if attempt.cut else answered.finish
                seconds = time.monotonic() - started
                return Reply(answered.text, answered.calls, usage, finish, answered.model or model, seconds)

    def _attempt(self, ask: Ask, form: Form) -> _Attempt:
        """Raises BudgetSpent."""
        asked = input_at_most(ask, json.dumps(body_of(ask, form, 0), ensure_ascii=False))
        allowance = self._ledger.check_before(asked)
        if self._longest is not None:
            allowance = replace(allowance, output=min(allowance.output, self._longest))
        return _Attempt(asked, allowance, form.stream)

    async def _once(self, connection: Connection, ask: Ask, form: Form, attempt: _Attempt, started: float) -> Answered:
        """Raises Failure, BudgetSpent, TimedOut."""
        left = self._endpoint.total - (time.monotonic() - started)
        try:
            async with asyncio.timeout(min(left, attempt.allowance.seconds)):
                async with connection.post(form.api, body_of(ask, form, attempt.allowance.output)) as opened:
                    return await self._read(opened, form.api, attempt)
        except TimeoutError:
            raise self._out_of_time(left > attempt.allowance.seconds) from None

    def _out_of_time(self, budget: bool) -> ModelError:
        if budget:
            return self._time_spent()
        return TimedOut(
            f"{self._endpoint.base_url} did not finish its reply in {self._endpoint.total:g} s; [llm] timeout gives it more"
        )

    def _time_spent(self) -> BudgetSpent:
        how = described(self._ledger.budget, self._ledger.spent, "time")
        return BudgetSpent("time", f"the budget of time is spent while {self._endpoint.base_url} is asked ({how})")

    async def _read(self, opened: Opened, api: Api, attempt: _Attempt) -> Answered:
        """Raises Failure for what is no reply."""
        attempt.measured = opened.is_stream
        answered = await (self._read_stream if opened.is_stream else self._read_body)(opened, api, attempt)
        if answered.failed:
            raise Failure(f"the reply broke off: {answered.failed}")
        most = attempt.allowance.output * _CHARS_A_TOKEN
        if len(answered.text) > most:
            attempt.cut = True
            answered = replace(answered, text=answered.text[:most])
        if attempt.cut:
            self._tell(f"the reply was longer than it may be and was cut off after {len(answered.text)} characters")
        return answered

    async def _read_body(self, opened: Opened, api: Api, attempt: _Attempt) -> Answered:
        body = bytearray()
        async for piece in opened.pieces:
            body += piece
            if len(body) > self._endpoint.largest_reply:
                raise _Enormous(f"its reply is larger than {self._endpoint.largest_reply >> 10} KiB")
        attempt.received, attempt.measured = len(body), True
        try:
            return read_whole(api, json.loads(body.decode("utf-8")))
        except UnicodeDecodeError:
            raise _Unreadable("its reply is no UTF-8") from None
        except (ValueError, RecursionError):
            raise _Unreadable("its reply is not what this API answers") from None

    async def _read_stream(self, opened: Opened, api: Api, attempt: _Attempt) -> Answered:
        stream = ChatStream() if api is Api.CHAT else ResponseStream()
        reader, size = EventReader(), 0

        def take(data: bytes) -> None:
            try:
                data.decode("utf-8")
                attempt.received += stream.feed(data)
            except UnicodeDecodeError:
                raise _Unreadable("its reply is no UTF-8") from None
            except (ValueError, RecursionError):
                raise _Unreadable("its stream is not what this API answers") from None

        try:
            async for piece in opened.pieces:
                size += len(piece)
                for data in reader.feed(piece):
                    take(data)
                too_long = attempt.received > attempt.allowance.output * _CHARS_A_TOKEN
                if too_long or size > self._endpoint.largest_reply:
                    attempt.cut = True
                    return stream.answered()
            for data in reader.end():
                take(data)
        except Failure:
            if not stream.whole:  # else only the count of tokens is missing
                raise
        if not stream.whole and not stream.failed:
            raise Failure("the stream ended before the reply did")
        return stream.answered()

    # ------------------------------------------------------------------------------------------------------ when it fails

    def _adapted(self, ask: Ask, failure: Failure) -> bool:
        """Whether the next attempt asks in another way."""
        said = f"{failure.said} {failure.code}"
        if failure.status in (404, 405, 501) and self._other_api and "model" not in said.lower():
            self._other_api = False
            other = Api.RESPONSES if self._form.api is Api.CHAT else Api.CHAT
            self._form = replace(self._form, api=other, limits=_limits(other, self._endpoint))
            self._tell(
                f"no {_path(Api.CHAT if other is Api.RESPONSES else Api.RESPONSES)} there; trying {_path(other)}"
            )
            return True
        if failure.status not in (400, 422):
            return False
        if is_too_long(said) and self._form.limits:
            longest = (self._longest or 1 << 15) // 2
            if longest < SHORTEST_LIMIT:
                return False
            self._longest = longest
            self._tell(f"the context of the model is small; replies of at most {longest} tokens are asked for")
            return True
        form = narrowed(self._form, ask, said)
        if form is None:
            return False
        self._tell(
            f"the endpoint does not take the request ({self._shown(failure.said)}); asking without {_spared(self._form, form)}"
        )
        self._form = form
        return True

    async def _pause(self, failure: Failure, tries: int, started: float) -> None:
        """Waits before the next attempt. Raises ModelError when there is to be none."""
        patience = self._patience
        most = patience.attempts
        if not failure.connected:
            most = patience.connects
        elif isinstance(failure, _Unreadable):
            most = patience.unreadable
        if not _can_help(failure) or tries >= most:
            raise self._error(failure, "its reply", tries)
        wait = min(patience.first * 2 ** (tries - 1), patience.longest) * random.uniform(0.5, 1.0)
        if failure.retry_after is not None:
            wait = failure.retry_after + random.uniform(0.0, min(patience.first, failure.retry_after / 10))
        left = self._endpoint.total - (time.monotonic() - started)
        if wait >= self._ledger.check_before(0).seconds:
            raise BudgetSpent(
                "time",
                f"{self._describe(failure)}; the {wait:.0f} s until it may be asked again are beyond the budget of time",
            )
        if wait >= left:
            raise EndpointFailed(f"{self._describe(failure)}, and asks to wait {wait:.0f} s; try again later")
        self._tell(f"{self._describe(failure)}; asking again in {wait:.1f} s ({tries} of {most})")
        await asyncio.sleep(wait)

    def _describe(self, failure: Failure) -> str:
        status = f"answers {failure.status}: " if failure.status else ""
        return (
            f"{self._endpoint.base_url} {status}{self._shown(failure.said)}"
            if status
            else (f"{self._endpoint.base_url}: {self._shown(failure.said)}")
        )

    def _shown(self, text: str) -> str:
        """What an endpoint says, in one line of bounded length, without the key."""
        text = text.replace(self._key, "***") if self._key != NO_KEY and len(self._key) > 5 else text
        line = "".join(c if c.isprintable() else " " for c in text)
        return line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."

    def _error(self, failure: Failure, what: str, tries: int = 1) -> ModelError:
        text = self._describe(failure)
        again = f" ({tries} attempts)" if tries > 1 else ""
        if failure.status in (401, 403):
            given = "no key was sent" if self._key == NO_KEY else "it does not take the key"
            return Unauthorized(f"{text}; {given}. STITCHCUDA_LLM_KEY, or the editor's command, sets it")
        if not failure.status and (not failure.connected or type(failure) is Failure):
            return Unreachable(f"{text}{again}; asked for {what}. Is the endpoint running, and the address right?")
        return EndpointFailed(f"{text}{again}; asked for {what}")


class _Unreadable(Failure):
    """An answer, but no reply."""


class _Enormous(Failure):
    """More than will be read."""


def _can_help(failure: Failure) -> bool:
    """Whether asking again can."""
    if isinstance(failure, _Enormous):
        return False
    if failure.code == "insufficient_quota":
        return False
    return failure.status in (0, 408, 409, 425, 429) or failure.status >= 500 and failure.status != 501


def first_form(endpoint: Endpoint) -> Form:
    """How an endpoint is asked first."""
    api = endpoint.api
    if api is Api.AUTO:
        api = Api.RESPONSES if endpoint.is_openai else Api.CHAT
    return Form(api, endpoint.model, endpoint.reasoning, endpoint.stream, limits=_limits(api, endpoint))


def _limits(api: Api, endpoint: Endpoint) -> tuple[str, ...]:
    if api is Api.RESPONSES:
        return ("max_output_tokens",)
    names = (
        "max_tokens",
        "max_completion_tokens",
    )  # local servers know the older name, newer models of OpenAI the other
    return names[::-1] if endpoint.is_openai else names


def _path(api: Api) -> str:
    return "/chat/completions" if api is Api.CHAT else "/responses"


def _spared(before: Form, after: Form) -> str:
    named = {
        "structured": "the schema of the reply",
        "tools": "tools",
        "stream": "a stream",
        "stream_usage": "the count of a stream's tokens",
        "reasoning": "an effort of reasoning",
        "store": "store",
        "limits": before.limit,
    }
    return ", ".join(text for name, text in named.items() if getattr(before, name) != getattr(after, name))
