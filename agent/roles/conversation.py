"""A request goes on: after the answers of tools, and after a reply that could not be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stitchcuda.agent.model.messages import Ask, Message, Reply, Speaker, ToolCall
from stitchcuda.agent.roles.tools import Answer

MOST_OF_A_REPLY = 20_000  # characters of a refused reply that are shown to the model again


def with_answers(ask: Ask, reply: Reply, answers: Sequence[tuple[ToolCall, Answer | str]]) -> Ask:
    """The same request after the model called tools: its reply, and one answer for each call, with the files that they show."""
    said = Message(Speaker.ASSISTANT, reply.text, reply.calls)
    full = [(call, Answer(given) if isinstance(given, str) else given) for call, given in answers]
    told = (Message(Speaker.TOOL, given.text, call=call.id) for call, given in full)
    files = dict.fromkeys((*ask.files, *(path for _, given in full for path in given.files)))
    return replace(ask, messages=(*ask.messages, said, *told), files=tuple(files))


def again(ask: Ask, reply: Reply, feedback: str) -> Ask:
    """The same request after a reply that could not be used."""
    text = reply.text
    if len(text) > MOST_OF_A_REPLY:
        text = f"{text[:MOST_OF_A_REPLY]}\n[{len(text) - MOST_OF_A_REPLY} more characters are not shown]"
    said = Message(Speaker.ASSISTANT, text or "[no text]")
    return replace(ask, messages=(*ask.messages, said, Message(Speaker.USER, feedback)))
