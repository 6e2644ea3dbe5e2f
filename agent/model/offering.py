"""What to leave out of a request that an endpoint refuses: many speak the API without all of its parts."""

from __future__ import annotations

import re
from dataclasses import replace

from stitchcuda.agent.model.endpoint import Api
from stitchcuda.agent.model.messages import Ask
from stitchcuda.agent.model.wire import Form

_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum context|n_ctx|available context"
    r"|max_(?:completion_|output_)?tokens\b.{0,80}(?:too large|at most|less than|smaller|exceed)"
    r"|supports at most \d+ completion tokens",
    re.IGNORECASE | re.DOTALL,
)


def is_too_long(said: str) -> bool:
    """Whether an error says that the request and its longest reply do not fit into what the model can hold."""
    return _TOO_LONG.search(said) is not None


def narrowed(form: Form, ask: Ask, said: str) -> Form | None:
    """The form without what the error names (`said`: its text and parameter); without all that can be spared when it names
    nothing; None when nothing is left to spare."""
    text = said.lower()
    schema, tools = ask.schema is not None and bool(form.structured), bool(ask.tools) and form.tools
    streams, chat = form.stream, form.api is Api.CHAT
    if re.search(r"max_\w*tokens", text) and form.limits:
        return replace(form, limits=form.limits[1:])
    if schema and re.search(r"response_format|text\.format|json_schema|json_object|structured", text):
        return _less_structured(form)
    if tools and re.search(r"\btool|\bfunction", text):
        return replace(form, tools=False)
    if schema and re.search(r"schema|grammar|\bformat\b", text):
        return _less_structured(form)
    if streams and chat and form.stream_usage and re.search(r"stream_options|include_usage", text):
        return replace(form, stream_usage=False)
    if form.reasoning and re.search(r"reasoning|effort", text):
        return replace(form, reasoning="")
    if not chat and form.store and re.search(r"\bstore\b", text):
        return replace(form, store=False)
    if streams and re.search(r"\bstream", text):
        return replace(form, stream=False)
    spare = replace(form, structured="" if schema else form.structured, tools=form.tools and not tools, reasoning="")
    spare = replace(spare, stream_usage=False if streams and chat else form.stream_usage, store=form.store and chat)
    return spare if spare != form else None


def _less_structured(form: Form) -> Form:
    return replace(form, structured="object" if form.structured == "schema" else "")
