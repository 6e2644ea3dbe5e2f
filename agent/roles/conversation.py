"""A request goes on: after the answers of tools, and after a reply that could not be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stitchcuda.agent.model.messages import Ask, Message, Reply, Speaker, ToolCall

MOST_OF_A_REPLY = 20_000  # characters of a refused reply that are shown to the model again


def with_answers(ask: Ask, reply: Reply, answers: Sequence[tuple[ToolCall, str]]) -> Ask:
    """The same request after the model called tools: its reply, and one answer for each call."""
    said = Message(Speaker.ASSISTANT, reply.text, reply.calls)
    told = (Message(Speaker.TOOL, text, call=call.id) for call, text in answers)
    return replace(ask, messages=(*ask.messages, said, *told))


def again(ask: Ask, reply: Reply, feedback: str) -> Ask:
    """The same request after a reply that could not be used."""
    text = reply.text
    if len(text) > MOST_OF_A_REPLY:
        text = f"{text[:MOST_OF_A_REPLY]}\n[{len(text) - MOST_OF_A_REPLY} more characters are not shown]"
    said = Message(Speaker.ASSISTANT, text or "[no text]")
    return replace(ask, messages=(*ask.messages, said, Message(Speaker.USER, feedback)))
