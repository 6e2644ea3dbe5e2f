"""Repairs one issue of a version that was rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stitchcuda.agent.model.messages import Ask, Message, Reply, Speaker
from stitchcuda.agent.roles import edit_form, telling, tools
from stitchcuda.agent.roles.answers import Fix, Malformed, Plan
from stitchcuda.agent.roles.reading import read_reply
from stitchcuda.agent.roles.situation import Brief
from stitchcuda.agent.roles.templates import Templates
from stitchcuda.analysis.contract.jsonread import Reader, SchemaError
from stitchcuda.gpu_validate.verdict import Verdict

ROLE = "repairer"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"cause": {"type": "string"}, "edits": edit_form.SCHEMA},
    "required": ["cause", "edits"],
    "additionalProperties": False,
}
FORM = f"""{{"cause": "one sentence: what in the sources causes the issue", "edits": [...]}}
{edit_form.WORDS}"""


def ask(brief: Brief, templates: Templates, plan: Plan, verdict: Verdict, whole: Sequence[str] = ()) -> Ask:
    """Asks for one fix of the verdict's primary issue. `brief` is that of the rejected version: its texts and analysis. Raises
    ValueError when the verdict has no primary issue."""
    issue = telling.issue_block(verdict)
    places, shown = telling.for_edits(brief, plan, whole)
    system, user = templates.fill(ROLE, {**places, "form": FORM, "issue": issue})
    messages = (Message(Speaker.SYSTEM, system), Message(Speaker.USER, user))
    return Ask(ROLE, templates.label(ROLE), messages, SCHEMA, tools.specs(brief), shown)


def read(reply: Reply, brief: Brief) -> Fix | Malformed:
    """The fix of a reply: its cause and the edits, which count in the brief's texts."""

    def fix(value: object) -> Fix:
        reader = Reader(value, "", ("cause", "edits"))
        cause = edit_form.short(reader, "cause", 1_000)
        if not cause.strip():
            raise SchemaError("cause", cause, "one sentence")
        return Fix(cause, edit_form.read_edits(reader))

    return read_reply(reply, fix)
