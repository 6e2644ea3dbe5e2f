"""Between the plain values of messages.py and the JSON of the two APIs, chat completions and responses. Pure: bodies of requests are
made, replies and the events of streams are read, tolerant of all that endpoints leave out or add."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stitchcuda.agent.model.endpoint import Api
from stitchcuda.agent.model.messages import Ask, Finish, Message, Speaker, ToolCall, ToolSpec, Usage

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """How a request is put: what the endpoint was found to offer. `structured`: "schema", "object" or ""; `limits` are names of the
    parameter for the longest reply that it may take, the first one is used."""

    api: Api
    model: str
    reasoning: str = ""
    stream: bool = True
    structured: str = "schema"
    tools: bool = True
    stream_usage: bool = True
    store: bool = True  # whether `store: false` can be said
    limits: tuple[str, ...] = ("max_tokens", "max_completion_tokens")

    @property
    def limit(self) -> str:
        return self.limits[0] if self.limits else ""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a reply said; `usage` is None where the endpoint did not count. `failed` is the error that it held instead."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = Finish.STOP
    usage: Usage | None = None
    model: str = ""
    failed: str = ""


class NoAnswer(ValueError):
    """JSON, but no reply of this API."""


# ------------------------------------------------------------------------------------------------------------------ requests


def body_of(ask: Ask, form: Form, longest: int) -> Json:
    """The request's JSON; `longest` is the most tokens of the reply."""
    body = _chat_body(ask, form) if form.api is Api.CHAT else _responses_body(ask, form)
    if form.limit:
        body[form.limit] = longest
    if form.stream:
        body["stream"] = True
    return body


def _chat_body(ask: Ask, form: Form) -> Json:
    body: Json = {"model": form.model, "messages": [_chat_message(m) for m in ask.messages]}
    if form.tools and ask.tools:
        body["tools"] = [{"type": "function", "function": _function(t)} for t in ask.tools]
    if ask.schema is not None and form.structured == "schema":
        body["response_format"] = {"type": "json_schema", "json_schema": _schema(ask)}
    elif ask.schema is not None and form.structured == "object":
        body["response_format"] = {"type": "json_object"}
    if form.reasoning:
        body["reasoning_effort"] = form.reasoning
    if form.stream and form.stream_usage:
        body["stream_options"] = {"include_usage": True}
    return body


def _chat_message(message: Message) -> Json:
    value: Json = {"role": message.speaker.value, "content": sound(message.text)}
    if message.calls:
        value["content"] = sound(message.text) or None
        value["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in message.calls
        ]
    if message.speaker is Speaker.TOOL:
        value["tool_call_id"] = message.call
    return value


def _responses_body(ask: Ask, form: Form) -> Json:
    body: Json = {"model": form.model, "input": [item for m in ask.messages for item in _items(m)]}
    if form.store:
        body["store"] = False  # OpenAI keeps what it answered through this API unless told not to
    if form.tools and ask.tools:
        body["tools"] = [{"type": "function", **_function(t), "strict": False} for t in ask.tools]
    if ask.schema is not None and form.structured == "schema":
        body["text"] = {"format": {"type": "json_schema", **_schema(ask)}}
    elif ask.schema is not None and form.structured == "object":
        body["text"] = {"format": {"type": "json_object"}}
    if form.reasoning:
        body["reasoning"] = {"effort": form.reasoning}
    return body


def _items(message: Message) -> Sequence[Json]:
    if message.speaker is Speaker.TOOL:
        return [{"type": "function_call_output", "call_id": message.call, "output": sound(message.text)}]
    items: list[Json] = [{"role": message.speaker.value, "content": sound(message.text)}] if message.text else []
    return items + [
        {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments} for c in message.calls
    ]


def _function(tool: ToolSpec) -> Json:
    return {"name": tool.name, "description": tool.description, "parameters": plain(tool.parameters)}


def _schema(ask: Ask) -> Json:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", ask.role)[:64] or "answer"
    return {"name": name, "schema": plain(ask.schema), "strict": is_strict(ask.schema)}


def is_strict(schema: object) -> bool:
    """Whether every object of a schema says all its properties, requires them and takes no others: what endpoints want of a
    schema that they hold to the letter."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object" or "properties" in schema:
            properties = schema.get("properties")
            if not isinstance(properties, Mapping) or schema.get("additionalProperties") is not False:
                return False
            if set(schema.get("required", ())) != set(properties):
                return False
        return all(is_strict(v) for v in schema.values())
    return all(is_strict(v) for v in schema) if isinstance(schema, list | tuple) else True


def plain(value: object) -> Any:
    """Mappings and sequences as JSON has them."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


# ------------------------------------------------------------------------------------------------------------------- replies


def read_whole(api: Api, value: object) -> Answered:
    """A reply in one piece. Raises NoAnswer."""
    if not isinstance(value, dict):
        raise NoAnswer("no object")
    if value.get("error"):
        return Answered(failed=error_text(value))
    return _read_chat(value) if api is Api.CHAT else _read_response(value)


def error_text(value: object) -> str:
    """What an error of an endpoint says, in whatever form."""
    error = value.get("error", value) if isinstance(value, dict) else value
    if isinstance(error, dict):
        said = error.get("message") or error.get("detail") or error.get("code") or error
        return said if isinstance(said, str) else json.dumps(said)[:500]
    return error if isinstance(error, str) else json.dumps(error)[:500]


_FINISHES = {
    "length": Finish.LENGTH,
    "max_output_tokens": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "content_filter": Finish.REFUSED,
    "refusal": Finish.REFUSED,
    "tool_calls": Finish.TOOLS,
    "function_call": Finish.TOOLS,
}


def _read_chat(value: Json) -> Answered:
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise NoAnswer("no choices")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise NoAnswer("no message")
    calls = [_call_of(c, k) for k, c in enumerate(_dicts(message.get("tool_calls")))]
    return _answered(
        _text(message.get("content")),
        calls,
        _text(message.get("refusal")),
        _text(choices[0].get("finish_reason")),
        _chat_usage(value.get("usage")),
        _text(value.get("model")),
    )


def _call_of(value: Json, number: int) -> ToolCall:
    function = value.get("function")
    function = function if isinstance(function, dict) else {}
    return ToolCall(
        _text(value.get("id")) or f"call_{number}", _text(function.get("name")), _argument(function.get("arguments"))
    )


def _argument(value: object) -> str:
    """Some endpoints send the object itself."""
    return value if isinstance(value, str) else json.dumps(value if value is not None else {})


def _answered(
    text: str, calls: Sequence[ToolCall], refusal: str, reason: str, usage: Usage | None, model: str
) -> Answered:
    finish = _FINISHES.get(reason, Finish.STOP)
    if refusal and not text:
        finish = Finish.REFUSED
    elif calls and finish in (Finish.STOP, Finish.TOOLS):
        finish = Finish.TOOLS
    elif finish is Finish.TOOLS:
        finish = Finish.STOP
    kept = tuple(replace(c, name=sound(c.name), arguments=sound(c.arguments)) for c in calls)
    return Answered(sound(without_thoughts(text or refusal)), kept, finish, usage, model)


def without_thoughts(text: str) -> str:
    """What local servers leave of a model's thinking in front of its answer is no part of the answer."""
    return re.sub(r"\A\s*<think>.*?</think>\s*", "", text, count=1, flags=re.DOTALL)


def sound(text: str) -> str:
    """Half of a character, which JSON can write and no file can hold, becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _text(value: object) -> str:
    """Text, or the texts of a list of parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) if isinstance(part, dict) else _text(part) for part in value)
    return value if isinstance(value, str) else ""


def _dicts(value: object) -> list[Json]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50 else 0


def _chat_usage(value: object) -> Usage | None:
    return _usage(value, "prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details")


def _usage(value: object, input: str, output: str, input_details: str, output_details: str) -> Usage | None:
    """None where it does not count both."""
    if not isinstance(value, dict) or not isinstance(value.get(input), int) or not isinstance(value.get(output), int):
        return None
    inside, made = value.get(input_details), value.get(output_details)
    cached = _number(inside.get("cached_tokens")) if isinstance(inside, dict) else 0
    reasoning = _number(made.get("reasoning_tokens")) if isinstance(made, dict) else 0
    taken = _number(value[input])
    return Usage(taken, min(cached, taken), _number(value[output]), reasoning)


def _read_response(value: Json) -> Answered:
    output = value.get("output")
    if not isinstance(output, list):
        raise NoAnswer("no output")
    if value.get("status") == "failed":
        return Answered(failed="the response failed")
    text, refusal, calls = "", "", []
    for number, item in enumerate(_dicts(output)):
        if item.get("type") == "function_call":
            call = _text(item.get("call_id")) or _text(item.get("id")) or f"call_{number}"
            calls.append(ToolCall(call, _text(item.get("name")), _argument(item.get("arguments"))))
        elif item.get("type") == "message":
            content = item.get("content")
            text += content if isinstance(content, str) else ""
            text += "".join(_text(p.get("text")) for p in _dicts(content) if p.get("type") in ("output_text", "text"))
            refusal += "".join(_text(p.get("refusal")) for p in _dicts(content) if p.get("type") == "refusal")
    why = value.get("incomplete_details")
    reason = _text(why.get("reason")) if isinstance(why, dict) else ""
    if value.get("status") == "incomplete" and not reason:
        reason = "length"
    usage = _usage(value.get("usage"), "input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details")
    return _answered(text, calls, refusal, reason, usage, _text(value.get("model")))


# ------------------------------------------------------------------------------------------------------------------- streams


@dataclass
class ChatStream:
    """Puts the chunks of a chat completion together."""

    text: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    calls: dict[int, Json] = field(default_factory=dict)
    reason: str = ""
    usage: Usage | None = None
    model: str = ""
    failed: str = ""
    whole: bool = False  # whether it came to its end

    def feed(self, data: bytes) -> int:
        """Takes one event; how many bytes the model said in it. Raises ValueError for what is no JSON object."""
        if data.strip() == b"[DONE]":
            self.whole = True
            return 0
        value = json.loads(data)
        if not isinstance(value, dict):
            raise NoAnswer("no object")
        if value.get("error"):
            self.failed = error_text(value)
            return 0
        self.model = self.model or _text(value.get("model"))
        self.usage = _chat_usage(value.get("usage")) or self.usage
        said = 0
        for choice in _dicts(value.get("choices"))[:1]:
            delta = choice.get("delta")
            said += self._delta(delta if isinstance(delta, dict) else {})
            if _text(choice.get("finish_reason")):
                self.reason, self.whole = _text(choice.get("finish_reason")), True
        return said

    def _delta(self, delta: Json) -> int:
        text, refusal = _text(delta.get("content")), _text(delta.get("refusal"))
        thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
        self.text.append(text)
        self.refusal.append(refusal)
        said = _size(text) + _size(refusal) + _size(thought)
        for place, part in enumerate(_dicts(delta.get("tool_calls"))):
            index = part.get("index")
            call = self.calls.setdefault(index if isinstance(index, int) else place, {"id": "", "name": [], "args": []})
            function = part.get("function")
            function = function if isinstance(function, dict) else {}
            call["id"] = call["id"] or _text(part.get("id"))
            call["name"].append(_text(function.get("name")))
            arguments = function.get("arguments")
            call["args"].append(
                arguments if isinstance(arguments, str) else "" if arguments is None else _argument(arguments)
            )
            said += _size(call["args"][-1])
        return said

    def answered(self) -> Answered:
        if self.failed:
            return Answered(failed=self.failed, usage=self.usage)
        calls = [
            ToolCall(c["id"] or f"call_{k}", "".join(c["name"]), "".join(c["args"]))
            for k, c in sorted(self.calls.items())
        ]
        return _answered("".join(self.text), calls, "".join(self.refusal), self.reason, self.usage, self.model)


@dataclass
class ResponseStream:
    """Follows the events of a response; its last one holds all of it."""

    last: Answered | None = None
    text: list[str] = field(default_factory=list)
    failed: str = ""
    whole: bool = False

    def feed(self, data: bytes) -> int:
        """As `ChatStream.feed`."""
        if data.strip() == b"[DONE]":
            return 0
        value = json.loads(data)
        if not isinstance(value, dict):
            raise NoAnswer("no object")
        kind, response = _text(value.get("type")), value.get("response")
        if kind in ("response.completed", "response.incomplete") and isinstance(response, dict):
            self.last, self.whole = _read_response(response), True
        elif kind in ("response.failed", "error") or value.get("error"):
            self.failed = error_text(response if isinstance(response, dict) else value)
        elif kind.endswith(".delta"):
            delta = _text(value.get("delta"))
            if kind == "response.output_text.delta":
                self.text.append(delta)
            return _size(delta)
        return 0

    def answered(self) -> Answered:
        if self.failed or self.last is None:
            return Answered("".join(self.text), failed=self.failed)
        return self.last
