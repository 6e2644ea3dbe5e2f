"""What a language model is asked and what it answers, independent of any endpoint's wire format. Plain values: a transcript is
made of them, and a run is replayed from it without a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Speaker(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A read-only tool that the model may call; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is JSON text as the model wrote it: it may be malformed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """`calls` belong to the assistant; `call` is the id of the call that a tool's message answers."""

    speaker: Speaker
    text: str
    calls: tuple[ToolCall, ...] = ()
    call: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. `role` is who asks (anchor, architect, coder, repairer), `prompt` names the template and its version. `schema`
    is the JSON schema that the answer must fit, None for free text. `files` are the paths whose text stands in the messages."""

    role: str
    prompt: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    tools: tuple[ToolSpec, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, as the endpoint counted them; estimated where it did not say. `cached` are part of `input`,
    `reasoning` of `output`. `money` in the currency of the configured prices, 0 without prices."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    money: float = 0.0
    estimated: bool = False


class Finish(StrEnum):
    STOP = "stop"
    LENGTH = "length"  # cut off by the limit on tokens
    TOOLS = "tools"  # it waits for the answers of tools
    REFUSED = "refused"  # it, or a filter of the endpoint, will not answer


@dataclass(frozen=True, slots=True)
class Reply:
    """`seconds` is the wall time with all retries."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    finish: Finish = Finish.STOP
    model: str = ""
    seconds: float = 0.0


class ModelError(Exception):
    """No answer can be had. The text is for the user: what was asked of whom, what came back, what to do."""


class NotApproved(ModelError):
    """The user has not agreed to send to this endpoint."""


class Unauthorized(ModelError):
    """The endpoint does not take the key."""


class Unreachable(ModelError):
    """No endpoint answers there, or the connection was lost and stayed lost."""


class EndpointFailed(ModelError):
    """It answers with errors, or with what is no answer, also when asked again."""


class TimedOut(ModelError):
    """It did not answer in time."""


class BudgetSpent(ModelError):
    """The next request could go beyond a budget; `what` is rounds, tokens, money, time or GPU time."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(text)
        self.what = what


class Model(Protocol):
    """Answers one request. Raises ModelError; `gpu_validate.runs.Cancelled` within a second of being cancelled."""

    def ask(self, ask: Ask) -> Reply: ...
