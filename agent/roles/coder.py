"""Writes the edits of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stitchcuda.agent.model.messages import Ask, Message, Reply, Speaker
from stitchcuda.agent.roles import edit_form, telling, tools
from stitchcuda.agent.roles.answers import Edits, Malformed, Plan
from stitchcuda.agent.roles.reading import read_reply
from stitchcuda.agent.roles.situation import Brief
from stitchcuda.agent.roles.templates import Templates
from stitchcuda.analysis.contract.jsonread import Reader

ROLE = "coder"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"why": {"type": "string"}, "edits": edit_form.SCHEMA},
    "required": ["why", "edits"],
    "additionalProperties": False,
}
FORM = f"""{{"why": "one sentence for the reviewer: what changes and why it is the same", "edits": [...]}}
{edit_form.WORDS}"""


def ask(brief: Brief, templates: Templates, plan: Plan, whole: Sequence[str] = ()) -> Ask:
    """Asks for the edits. `whole` are functions whose anchors failed twice: they are to be given whole."""
    places, shown = telling.for_edits(brief, plan, whole)
    system, user = templates.fill(ROLE, {**places, "form": FORM})
    messages = (Message(Speaker.SYSTEM, system), Message(Speaker.USER, user))
    return Ask(ROLE, templates.label(ROLE), messages, SCHEMA, tools.specs(brief), shown)


def read(reply: Reply, brief: Brief) -> Edits | Malformed:
    """The edits of a reply. Where they lie, and whether that is in scope, is decided elsewhere."""

    def edits(value: object) -> Edits:
        reader = Reader(value, "", ("why", "edits"))
        why = edit_form.short(reader, "why", 1_000) if reader.has("why") else ""
        return Edits(edit_form.read_edits(reader), why)

    return read_reply(reply, edits)
