"""Whether an endpoint can be used: reachable, the key accepted, the model there, and what it offers. Asks for the list of models and one
question of a few words; no source is sent."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from stitchcuda.agent.model.accounting import Budget, Ledger
from stitchcuda.agent.model.approvals import Approvals
from stitchcuda.agent.model.client import Client, Patience
from stitchcuda.agent.model.connection import MISSING
from stitchcuda.agent.model.endpoint import NO_KEY, URL_VARIABLE, Endpoint, NoEndpoint, Origin
from stitchcuda.agent.model.messages import Ask, Message, ModelError, Speaker, Unauthorized, Unreachable
from stitchcuda.agent.model.opening import configured
from stitchcuda.gpu_validate.capabilities import Capability

COSTS = "proposals from a language model (the rules need none)"
SECONDS = 20.0  # for each question
_SCHEMA = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Probed:
    """`problem` is a sentence for the user, "" when the endpoint can be used. None: not known, because something before it failed.
    `structured` is "schema", "object" or ""; `api` is the one that it answers."""

    reachable: bool
    key_accepted: bool | None = None
    model: str = ""
    models: tuple[str, ...] = ()
    structured: str | None = None
    streaming: bool | None = None
    api: str = ""
    problem: str = ""


def probe_endpoint(endpoint: Endpoint, key: str, cancelled: Callable[[], bool] = lambda: False) -> Probed:
    """Takes `SECONDS` a question at most. Raises Cancelled."""
    endpoint = replace(endpoint, total=min(SECONDS, endpoint.total), connect=min(5.0, endpoint.connect))
    client = Client(
        endpoint, key, Ledger(Budget(), endpoint.prices), cancelled=cancelled, patience=Patience(attempts=2, connects=1)
    )
    listing = ""
    models: tuple[str, ...] = ()
    try:
        models = client.models()
    except (Unauthorized, Unreachable) as error:
        return _failed(error)
    except ModelError as error:  # not every endpoint lists its models
        listing = str(error)
    model = endpoint.model or (models[0] if len(models) == 1 else "")
    known = Probed(True, None, model, models)
    if endpoint.model and models and endpoint.model not in models:
        return replace(known, key_accepted=True, problem=_missing(endpoint.model, models))
    try:
        client.ask(_ask())
    except ModelError as error:
        failed = _failed(error)
        return replace(failed, model=model, models=models, problem=failed.problem or listing)
    form = client.form
    return replace(known, key_accepted=True, structured=form.structured, streaming=form.stream, api=form.api.value)


def _ask() -> Ask:
    message = Message(Speaker.USER, 'Answer with the JSON object {"ready": true} and nothing else.')
    return Ask("doctor", "doctor-1", (message,), schema=_SCHEMA)


def _failed(error: ModelError) -> Probed:
    refused = isinstance(error, Unauthorized)
    return Probed(not isinstance(error, Unreachable), False if refused else None, problem=str(error))


def _missing(model: str, models: tuple[str, ...]) -> str:
    return f"it has no model {model}; it has {', '.join(models[:20])}{', ...' if len(models) > 20 else ''}"


def endpoint_capability(
    root: Path, approvals: Approvals | None = None, environment: Mapping[str, str] | None = None
) -> Capability:
    """The endpoint that is configured for the program at `root`, for `stitchcuda doctor`. One that the workspace names is left alone
    until the user has agreed to it. Keys are never shown."""
    environment = os.environ if environment is None else environment
    try:
        said = configured(root, environment=environment)
    except NoEndpoint as error:
        return _not_usable("", str(error))
    if said is None:
        alone = "; OPENAI_API_KEY alone names none" if environment.get("OPENAI_API_KEY") else ""
        return _not_usable("", f"none is configured: [llm] base_url or {URL_VARIABLE} names one{alone}")
    endpoint = said.endpoint
    where = f"{endpoint.base_url} ({endpoint.said_by}, {'no key set' if said.key == NO_KEY else 'with a key'})"
    if importlib.util.find_spec("openai") is None:
        return _not_usable(where, MISSING)
    if endpoint.origin is Origin.WORKSPACE and said.questions(root, (), (), approvals or Approvals()):
        return _not_usable(where, "the workspace names it, and you have not agreed to it: nothing was sent there")
    probed = probe_endpoint(endpoint, said.key)
    if probed.problem:
        return _not_usable(where, probed.problem)
    parts = (
        "responses" if probed.api == "responses" else "chat completions",
        {"schema": "keeps to a schema", "object": "replies in JSON, keeps to no schema"}.get(
            probed.structured or "", "offers no structured replies"
        ),
        "streams" if probed.streaming else "does not stream",
    )
    return Capability("endpoint", True, probed.model, f"{where}: {', '.join(parts)}", COSTS)


def _not_usable(where: str, problem: str) -> Capability:
    return Capability("endpoint", False, "", where, COSTS, problem)
