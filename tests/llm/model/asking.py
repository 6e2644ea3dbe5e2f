"""What tests of the client share: a request, and a client that does not wait long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stitchcuda.agent.model.accounting import FREE, UNSAID, Budget, Ledger, Prices
from stitchcuda.agent.model.client import Client, Patience
from stitchcuda.agent.model.endpoint import Api, Endpoint
from stitchcuda.agent.model.messages import Ask, Message, Speaker, ToolSpec

from tests.llm.endpoint import ScriptedEndpoint

SCHEMA = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}
TOOL = ToolSpec("symbol", "Shows a symbol.", {"type": "object", "properties": {"name": {"type": "string"}}})
KEY = "key-of-the-tests-1234"
APIS = ("chat", "responses")
QUICK = Patience(first=0.01)
FORMS = [(api, stream) for api in APIS for stream in (True, False)]


def ask(text: str = "Make it faster: x < y € 漢", schema: Mapping[str, Any] | None = None, *tools: ToolSpec) -> Ask:
    messages = (Message(Speaker.SYSTEM, "You write CUDA."), Message(Speaker.USER, text))
    return Ask("coder", "coder-1", messages, schema, tools, ("a.cu",))


@dataclass
class Talk:
    """A client of a scripted endpoint, its ledger, and what it told."""

    client: Client
    ledger: Ledger
    told: list[str] = field(default_factory=list)


def talk(
    there: ScriptedEndpoint,
    api: str = "chat",
    stream: bool = True,
    *,
    model: str = "coder",
    key: str = KEY,
    budget: Budget = UNSAID,
    prices: Prices = FREE,
    cancelled: Callable[[], bool] = lambda: False,
    patience: Patience = QUICK,
    **more: Any,
) -> Talk:
    endpoint = Endpoint(there.url, model, api=Api(api), stream=stream, prices=prices, **more)
    ledger = Ledger(budget, prices)
    told: list[str] = []
    client = Client(endpoint, key, ledger, cancelled=cancelled, tell=told.append, patience=patience)
    return Talk(client, ledger, told)
