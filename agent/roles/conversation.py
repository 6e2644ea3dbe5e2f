"""A request goes on: while the model calls tools, and after a reply that could not be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stitchcuda.agent.model.messages import Ask, Finish, Message, Model, Reply, Speaker, ToolCall
from stitchcuda.agent.roles import tools
from stitchcuda.agent.roles.situation import Brief
from stitchcuda.agent.roles.tools import Answer

TOOL_TURNS = 6  # replies of one round that may call tools
TOOL_CALLS = 8  # calls of one reply that are answered
NO_MORE = "No more tools are answered in this round. Give the answer that was asked for, with what you know."
MOST_OF_A_REPLY = 20_000  # characters of a refused reply that are shown to the model again


def reply_to(ask: Ask, model: Model, brief: Brief) -> tuple[Ask, Reply]:
    """The reply, and the request as it stands once tools were answered. Raises ModelError, Cancelled."""
    reply = model.ask(ask)
    for turn in range(TOOL_TURNS):
        if reply.finish is not Finish.TOOLS or not reply.calls:
            break
        answers: list[tuple[ToolCall, Answer | str]] = []
        for number, call in enumerate(reply.calls):
            last = turn == TOOL_TURNS - 1 or number >= TOOL_CALLS
            answers.append((call, NO_MORE if last else tools.answer(call, brief)))
        ask = with_answers(ask, reply, answers)
        reply = model.ask(ask)
    return ask, reply


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
