"""What stands between the roles and a model: nothing is sent that holds a secret or a file that was not agreed to, and what is asked and
answered is written down."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from stitchcuda.agent.model.accounting import Ledger, Spent
from stitchcuda.agent.model.messages import Ask, Message, Model, ModelError, NotApproved, Reply, ToolCall
from stitchcuda.agent.model.secrets import Redactor
from stitchcuda.agent.model.transcript import Transcript


class Guarded:
    """A Model around another one. `files` are those that may be sent; None: any."""

    def __init__(
        self,
        inner: Model,
        redactor: Redactor,
        *,
        files: Collection[str] | None = None,
        transcript: Transcript | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._inner, self._redactor, self._files = inner, redactor, files
        self._transcript, self._ledger = transcript, ledger

    def ask(self, ask: Ask) -> Reply:
        """Raises ModelError, Cancelled."""
        if self._files is not None:
            more = sorted(set(ask.files) - set(self._files))
            if more:
                raise NotApproved(f"nobody agreed to sending {', '.join(more)}; nothing was sent")
        ask = cleaned_ask(ask, self._redactor)
        before = self._spent()
        try:
            reply = cleaned_reply(self._inner.ask(ask), self._redactor)
        except ModelError as error:
            error.args = (self._redactor.text(str(error)),)  # an endpoint may say what it was sent
            self._write(ask, error, before)
            raise
        self._write(ask, reply, before)
        return reply

    def _spent(self) -> Spent:
        return self._ledger.spent if self._ledger is not None else Spent()

    def _write(self, ask: Ask, outcome: Reply | ModelError, before: Spent) -> None:
        if self._transcript is None:
            return
        now = self._spent()
        spent = Spent(
            tokens=now.tokens - before.tokens,
            money=now.money - before.money,
            requests=now.requests - before.requests,
            estimated=now.estimated - before.estimated,
        )
        self._transcript.answered(ask, outcome, spent)


class Remembered:
    """A Model around a record that a `Guarded` one wrote. Requests are worded as it sent them, so that they can be compared; replies are
    taken as they were used then: a secret of today's environment must not be taken out of them."""

    def __init__(self, record: Model) -> None:
        self._record, self._redactor = record, Redactor()

    def ask(self, ask: Ask) -> Reply:
        """Raises ModelError, Cancelled."""
        return self._record.ask(cleaned_ask(ask, self._redactor))


def cleaned_ask(ask: Ask, redactor: Redactor) -> Ask:
    """The request without secrets, whoever brought them in."""
    return replace(ask, messages=tuple(_message(m, redactor) for m in ask.messages))


def cleaned_reply(reply: Reply, redactor: Redactor) -> Reply:
    """A model that has seen a secret elsewhere must not bring it into the journal."""
    return replace(reply, text=redactor.text(reply.text), calls=_calls(reply.calls, redactor))


def _message(message: Message, redactor: Redactor) -> Message:
    return replace(message, text=redactor.text(message.text), calls=_calls(message.calls, redactor))


def _calls(calls: tuple[ToolCall, ...], redactor: Redactor) -> tuple[ToolCall, ...]:
    return tuple(replace(c, arguments=redactor.text(c.arguments)) for c in calls)
