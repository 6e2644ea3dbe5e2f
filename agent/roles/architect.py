"""Proposes one change of structure, as a plan."""

from __future__ import annotations

from typing import Any

from stitchcuda.agent.model.messages import Ask, Message, Reply, Speaker
from stitchcuda.agent.roles import telling, tools
from stitchcuda.agent.roles.answers import Malformed, Plan
from stitchcuda.agent.roles.edit_form import short
from stitchcuda.agent.roles.reading import read_reply
from stitchcuda.agent.roles.situation import Brief
from stitchcuda.agent.roles.templates import Templates
from stitchcuda.analysis.contract.jsonread import Reader, SchemaError, text

ROLE = "architect"
MOST_SENTENCE = 2_000  # characters
MOST_SENTENCES = 30
_LISTS = ("steps", "risks", "constraints", "targets")
_FIELDS = ("done", "summary", "expected_bottleneck", *_LISTS)
_SENTENCES = {"type": "array", "items": {"type": "string"}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "done": {"type": "boolean"},
        "summary": {"type": "string"},
        "expected_bottleneck": {"type": "string"},
        **{name: _SENTENCES for name in _LISTS},
    },
    "required": list(_FIELDS),
    "additionalProperties": False,
}
FORM = """{"done": false,
 "summary": "the change in one sentence",
 "steps": ["what is done, in order, one edit or decision each"],
 "expected_bottleneck": "what will limit the program afterwards",
 "risks": ["what could make results differ, or the program slower"],
 "constraints": ["what the code must respect for results to stay equal"],
 "targets": ["functions or files of the scope that change"]}
With "done": true, `summary` says why nothing is worth trying, and the lists are empty."""


def ask(brief: Brief, templates: Templates) -> Ask:
    """Asks for the next plan."""
    files, shown = telling.sources(brief)
    system, user = templates.fill(
        ROLE,
        {
            "results": telling.results(brief.contract),
            "form": FORM,
            "contract": telling.contract_block(brief.contract),
            "scope": telling.scope_block(brief.scope),
            "rules": telling.rules_block(brief),
            "measured": telling.measured_block(brief),
            "history": telling.history_block(brief),
            "files": files,
        },
    )
    messages = (Message(Speaker.SYSTEM, system), Message(Speaker.USER, user))
    return Ask(ROLE, templates.label(ROLE), messages, SCHEMA, tools.specs(brief), shown)


def read(reply: Reply, brief: Brief) -> Plan | Malformed:
    """The plan of a reply. Its targets lie in the scope."""

    def plan(value: object) -> Plan:
        reader = Reader(value, "", _FIELDS)
        done = reader.has("done") and _flag(reader, value)
        summary = short(reader, "summary", MOST_SENTENCE)
        if not summary.strip():
            raise SchemaError("summary", summary, "the change, or why there is none, in one sentence")
        lists = {name: _sentences(reader, name, required=not done and name in ("steps", "targets")) for name in _LISTS}
        bottleneck = short(reader, "expected_bottleneck", MOST_SENTENCE) if reader.has("expected_bottleneck") else ""
        if not done:
            _check_targets(lists["targets"], brief)
        return Plan(summary, lists["steps"], bottleneck, lists["risks"], lists["constraints"], lists["targets"], done)

    return read_reply(reply, plan)


def _flag(reader: Reader, value: object) -> bool:
    flag = value["done"] if isinstance(value, dict) else None
    if not isinstance(flag, bool):
        raise SchemaError(reader.path("done"), flag, "true or false")
    return flag


def _sentences(reader: Reader, name: str, *, required: bool) -> tuple[str, ...]:
    found = reader.items(name, text) if required else reader.items(name, text, ())
    if required and not found:
        raise SchemaError(reader.path(name), list(found), "at least one")
    if len(found) > MOST_SENTENCES:
        raise SchemaError(reader.path(name), len(found), f"at most {MOST_SENTENCES}")
    for k, sentence in enumerate(found):
        if not sentence.strip() or len(sentence) > MOST_SENTENCE:
            raise SchemaError(f"{reader.path(name)}[{k}]", sentence, f"1 to {MOST_SENTENCE} characters")
    return found


def _check_targets(targets: tuple[str, ...], brief: Brief) -> None:
    scope = brief.scope
    for k, target in enumerate(targets):
        plain = target.strip().removesuffix("()")
        if plain in scope.files or (scope.may_add_files and plain not in brief.texts and "." in plain):
            continue
        if scope.functions:
            if any(
                plain == name or name.endswith(f"::{plain}") or plain.endswith(f"::{name}") for name in scope.functions
            ):
                continue
            raise SchemaError(
                f"targets[{k}]", target, f"one of the scope: {', '.join((*scope.functions, *scope.files))}"
            )
        uids = brief.analysis.program.by_name.get(plain.rpartition("::")[2], ())
        if any(brief.analysis.program.functions[uid].path in scope.files for uid in uids):
            continue
        raise SchemaError(
            f"targets[{k}]", target, f"a file of the scope ({', '.join(scope.files)}) or a function in one"
        )
