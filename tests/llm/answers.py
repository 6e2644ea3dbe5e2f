"""What a scripted endpoint answers (endpoint.py): the replies of a model, well-formed ones in every wire format of the OpenAI API,
and all that goes wrong on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Called:
    """A tool call of the model; `arguments` is sent as it stands."""

    name: str
    arguments: str
    id: str


@dataclass(frozen=True)
class Answer:
    """One answer of the script. The first fields are the model's, the others say how its delivery goes; None in `status` means 200
    with the model's reply in the wire format that was asked for."""

    text: str = ""
    calls: tuple[Called, ...] = ()
    refusal: str = ""
    finish: str = "stop"  # stop, length, content_filter; tool calls say so by themselves
    usage: tuple[int, int] | None = None  # input and output tokens; None: a quarter of the characters
    cached: int = 0
    reasoning: int = 0
    counted: bool = True  # False: it does not say how many tokens it took
    model: str = ""  # the name that it answers under; "": as asked for

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""  # of an answer with a status
    spoil: Callable[[bytes], bytes] | None = None  # changes the bytes of the body on their way out
    wait: float = 0.0  # seconds before the first byte
    pause: float = 0.0  # seconds between bytes of the body
    cut_after: float | None = None  # the connection is dropped after this part of the body
    stall_after: float | None = None  # nothing more is sent after this part of the body
    silent: bool = False  # not even headers are sent
    breaks_with: str = ""  # a stream ends with an error that says this; an answer in one piece fails with 500


# --------------------------------------------------------------------------------------------------------- what a model says


def say(text: str, **more: Any) -> Answer:
    """The model says `text`; `more` are fields of Answer."""
    return Answer(text, **more)


def say_json(value: object, **more: Any) -> Answer:
    return Answer(json.dumps(value), **more)


def call(name: str, arguments: object = None, *, id: str = "call_1", **more: Any) -> Answer:
    """The model calls one tool; `arguments` are made JSON unless they are text."""
    return calls((name, arguments), ids=(id,), **more)


def calls(*named: tuple[str, object], ids: tuple[str, ...] = (), **more: Any) -> Answer:
    """The model calls several tools at once."""
    ids = ids or tuple(f"call_{k}" for k in range(1, len(named) + 1))
    made = [
        Called(name, arguments if isinstance(arguments, str) else json.dumps(arguments or {}), id)
        for (name, arguments), id in zip(named, ids, strict=True)
    ]
    return Answer(calls=tuple(made), **more)


def truncated(text: str, **more: Any) -> Answer:
    """The limit on tokens cut it off after `text`."""
    return Answer(text, finish="length", **more)


def refuse(text: str = "I can't help with that.", **more: Any) -> Answer:
    """The model refuses, and says so in the field for it."""
    return Answer(refusal=text, **more)


def filtered(text: str = "", **more: Any) -> Answer:
    """A filter of the endpoint cut it off."""
    return Answer(text, finish="content_filter", **more)


def empty() -> Answer:
    """A reply without text, calls or refusal."""
    return Answer()


def enormous(size: int = 16 << 20) -> Answer:
    """A reply of `size` characters."""
    return Answer("all work and no play " * (size // 21 + 1), usage=(10, 10))


# ------------------------------------------------------------------------------------------------------------ what goes wrong


def fail(status: int, message: str = "it failed", *, retry_after: float | None = None, **more: Any) -> Answer:
    """An error of the API: 401, 429, 500, ... `more`: its fields `code`, `param`, `type`."""
    error = {"message": message, "type": "error", "param": None, "code": None, **more}
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    return Answer(status=status, headers=headers, body=json.dumps({"error": error}).encode())


def raw(body: bytes, *, status: int = 200, content_type: str = "application/json", **headers: str) -> Answer:
    """These bytes."""
    return Answer(status=status, headers={"Content-Type": content_type, **headers}, body=body)


def redirect(url: str, status: int = 307) -> Answer:
    """It sends the client, with all that it posted, elsewhere."""
    return Answer(status=status, headers={"Location": url})


def malformed(text: str = "half an answer") -> Answer:
    """A body, or a stream, that is no JSON."""
    return Answer(text, spoil=lambda body: body.replace(b"}", b""))


def not_utf8(text: str = "a € sign") -> Answer:
    """A body with bytes that are no UTF-8 inside the text of the model, in the place of each €."""
    return Answer(text, spoil=lambda body: body.replace(rb"\u20ac", b"\xe9\xff"))


def slow(answer: Answer, pause: float = 0.02) -> Answer:
    """`answer`, byte by byte with a pause of that many seconds between them."""
    return replace(answer, pause=pause)


def late(answer: Answer, wait: float) -> Answer:
    """`answer`, after that many seconds."""
    return replace(answer, wait=wait)


def dropped(answer: Answer = Answer("never heard in full " * 8), part: float = 0.5) -> Answer:
    """The connection is lost after that part of the body; 0: before the headers."""
    return replace(answer, cut_after=part)


def hang(answer: Answer = Answer("never heard"), part: float | None = None) -> Answer:
    """It says nothing, or nothing more after that part of the body, until the client gives up."""
    return replace(answer, silent=True) if part is None else replace(answer, stall_after=part)


def broken(answer: Answer = Answer("I was about to"), message: str = "the server is overloaded") -> Answer:
    """A stream that ends with an error inside of it."""
    return replace(answer, breaks_with=message)


# ------------------------------------------------------------------------------------------------------------ wire formats


def whole_body(answer: Answer, api: str, asked: Json) -> bytes:
    """The reply in one piece; `api` is "chat" or "responses"."""
    return json.dumps(_completion(answer, asked) if api == "chat" else _response(answer, asked)).encode()


def stream_events(answer: Answer, api: str, asked: Json) -> Iterator[bytes]:
    """The reply as server-sent events."""
    if api == "chat":
        for data in _chunks(answer, asked):
            yield b"data: " + json.dumps(data).encode() + b"\n\n"
        if not answer.breaks_with:
            yield b"data: [DONE]\n\n"
        return
    for data in _response_events(answer, asked):
        yield f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def _usage(answer: Answer, asked: Json) -> tuple[int, int]:
    said = answer.text + answer.refusal + "".join(c.arguments for c in answer.calls)
    return answer.usage or (len(json.dumps(asked)) // 4, len(said) // 4 + 1)


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls and answer.finish == "stop" else answer.finish


def _chat_usage(answer: Answer, asked: Json) -> Json:
    spent, said = _usage(answer, asked)
    return {
        "prompt_tokens": spent,
        "completion_tokens": said,
        "total_tokens": spent + said,
        "prompt_tokens_details": {"cached_tokens": answer.cached},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning},
    }


def _completion(answer: Answer, asked: Json) -> Json:
    message: Json = {"role": "assistant", "content": answer.text or None, "refusal": answer.refusal or None}
    if answer.calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in answer.calls
        ]
    value = _chat_envelope(answer, asked, "chat.completion")
    value["choices"] = [{"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}]
    if answer.counted:
        value["usage"] = _chat_usage(answer, asked)
    return value


def _chat_envelope(answer: Answer, asked: Json, kind: str) -> Json:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": answer.model or str(asked.get("model"))}


def _chunks(answer: Answer, asked: Json) -> Iterator[Json]:
    def chunk(delta: Json, finish: str | None = None) -> Json:
        value = _chat_envelope(answer, asked, "chat.completion.chunk")
        value["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return value

    yield chunk({"role": "assistant", "content": ""})
    for part in _parts(answer.text):
        yield chunk({"content": part})
    for part in _parts(answer.refusal):
        yield chunk({"refusal": part})
    for number, c in enumerate(answer.calls):
        head = {"index": number, "id": c.id, "type": "function", "function": {"name": c.name, "arguments": ""}}
        yield chunk({"tool_calls": [head]})
        for part in _parts(c.arguments):
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": part}}]})
    if answer.breaks_with:
        yield {"error": {"message": answer.breaks_with, "type": "server_error", "code": None}}
        return
    yield chunk({}, _finish(answer))
    if answer.counted and (asked.get("stream_options") or {}).get("include_usage"):
        yield {
            **_chat_envelope(answer, asked, "chat.completion.chunk"),
            "choices": [],
            "usage": _chat_usage(answer, asked),
        }


def _parts(text: str) -> Iterator[str]:
    """In pieces of a few characters; long texts in at most some thousand."""
    step = max(7, len(text) // 4000)
    return (text[k : k + step] for k in range(0, len(text), step))


def _response(answer: Answer, asked: Json) -> Json:
    output: list[Json] = []
    if answer.reasoning:
        output.append({"id": "rs_1", "type": "reasoning", "summary": []})
    if answer.text or answer.refusal or not answer.calls:
        content: list[Json] = []
        if answer.text:
            content.append({"type": "output_text", "text": answer.text, "annotations": []})
        if answer.refusal:
            content.append({"type": "refusal", "refusal": answer.refusal})
        output.append(
            {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
        )
    for c in answer.calls:
        output.append(
            {"id": f"fc_{c.id}", "type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments}
        )
    spent, said = _usage(answer, asked)
    why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(answer.finish)
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": answer.model or str(asked.get("model")),
        "status": "completed" if why is None else "incomplete",
        "incomplete_details": None if why is None else {"reason": why},
        "error": None,
        "output": output,
        "usage": {
            "input_tokens": spent,
            "input_tokens_details": {"cached_tokens": answer.cached},
            "output_tokens": said,
            "output_tokens_details": {"reasoning_tokens": answer.reasoning},
            "total_tokens": spent + said,
        }
        if answer.counted
        else None,
    }


def _response_events(answer: Answer, asked: Json) -> Iterator[Json]:
    for number, data in enumerate(_unnumbered_events(answer, asked)):
        yield {**data, "sequence_number": number}


def _unnumbered_events(answer: Answer, asked: Json) -> Iterator[Json]:
    whole = _response(answer, asked)
    yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": _begun(item)}
        for content, part in enumerate(item.get("content", ())):
            yield from _part_events(part, {**at, "content_index": content})
        if item["type"] == "function_call":
            for piece in _parts(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **at, **done}
        if answer.breaks_with:
            error = {"code": "server_error", "message": answer.breaks_with}
            yield {"type": "response.failed", "response": {**whole, "status": "failed", "error": error}}
            return
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _part_events(part: Json, at: Json) -> Iterator[Json]:
    kind, name = ("output_text", "text") if part["type"] == "output_text" else ("refusal", "refusal")
    yield {"type": "response.content_part.added", **at, "part": {**part, name: ""}}
    for piece in _parts(part[name]):
        yield {"type": f"response.{kind}.delta", **at, "delta": piece}
    yield {"type": f"response.{kind}.done", **at, name: part[name]}
    yield {"type": "response.content_part.done", **at, "part": part}


def _begun(item: Json) -> Json:
    return {k: [] if k == "content" else "" if k == "arguments" else v for k, v in item.items()}
