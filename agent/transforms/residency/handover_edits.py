"""The edits of a group: signatures, the buffer that is handed on, and what becomes superfluous."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stitchcuda.agent.transforms.residency.draft import Draft, Refused, code_of, declarators, words
from stitchcuda.agent.transforms.residency.groups import Group, Link, prototypes
from stitchcuda.agent.transforms.residency.handover import Consumer, DevicePointer, Producer
from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.program.ir import Function

_VECTOR = rb"(?:(?:::)?std\s*::\s*)?vector\s*<\s*(?P<held>[\w:]+(?:\s+[\w:]+)*)\s*>"
_RETURNED = re.compile(rb"(?<![\w:])(?:const\s+)?" + _VECTOR + rb"(?P<gap>\s*)\Z")
_PARAM = re.compile(rb"(?:const\s+)?" + _VECTOR + rb"(?:\s+const)?\s*&?\s*(?P<name>\w+)?\s*")
_VARIABLE = re.compile(rb"(?:const\s+)?(?:" + _VECTOR + rb"|(?P<auto>auto))\s+(?:const\s+)?")


def rewrite(given: RuleInput, group: Group) -> Draft:
    """All edits of the group. Raises `Refused` when a text has a form that is not known."""
    draft = Draft(given.sources)
    for producer in group.producers.values():
        _producer(given, draft, producer)
    for consumer in group.consumers.values():
        _consumer(given, draft, consumer)
    for link in group.links:
        _caller(given, draft, group, link)
    for body in [*(p.body for p in group.producers.values()), *(c.body for c in group.consumers.values())]:
        draft.drop_orphans(body)
    return draft


def _producer(given: RuleInput, draft: Draft, producer: Producer) -> None:
    body, pointer = producer.body, producer.pointer
    for function in (body.function, *prototypes(given, body.function)):
        _return_type(given.sources, draft, function, _spaced(given.sources, body, pointer))
    draft.delete(body, producer.host)
    draft.delete(body, producer.download)
    draft.delete(body, pointer.release)
    value = producer.returned.value
    if value is not None:
        draft.replace(body.function.path, _in_file(body, value.span), pointer.declared.name)


def _return_type(sources: Mapping[str, bytes], draft: Draft, function: Function, spaced: bool) -> None:
    text, end = sources[function.path], function.base + function.name_span[0]
    found = _RETURNED.search(text, function.base, end)
    if found is None:
        raise Refused("the return type is not written in a form that can be changed", function.path, function.base)
    one_line = b"\n" not in found["gap"]
    new = _pointer(found["held"].decode(), spaced) if one_line else _pointer(found["held"].decode(), spaced).rstrip()
    stop = end if one_line else found.start("gap")
    draft.replace(function.path, (found.start(), stop), new)
    if one_line:
        _realign(text, draft, function.path, end, len(new) - (end - found.start()))


def _consumer(given: RuleInput, draft: Draft, consumer: Consumer) -> None:
    body, pointer = consumer.body, consumer.pointer
    name, spaced = pointer.declared.name, _spaced(given.sources, body, pointer)
    for function in (body.function, *prototypes(given, body.function)):
        param = function.params[consumer.index]
        start, end = function.base + param.span[0], function.base + param.span[1]
        found = _PARAM.fullmatch(given.sources[function.path], start, end)
        if found is None or param.default is not None:
            raise Refused("the parameter is not written in a form that can be changed", function.path, start)
        if any(p.name == name for p in function.params):
            raise Refused(f"`{name}` is the name of another parameter here", function.path, start)
        new = _pointer(found["held"].decode(), spaced)
        draft.replace(function.path, (start, end), new + name if found["name"] else new.rstrip())
    draft.delete(body, pointer.declared)
    draft.delete(body, pointer.allocation)
    draft.delete(body, consumer.upload)


def _caller(given: RuleInput, draft: Draft, group: Group, link: Link) -> None:
    body, declared = link.body, link.variable
    path, base = body.function.path, body.function.base
    producer, consumer = group.producers[link.producer], group.consumers[link.consumer]
    if len(declarators(body, declared)) > 1:
        raise Refused(f"`{declared.name}` is declared together with others", path, base + declared.span[0])
    start = base + edits.extent(body, declared.span)[0]
    name_start, name_end = _in_file(body, (declared.name_span[0], declared.name_span[0] + len(declared.name.encode())))
    found = _VARIABLE.fullmatch(given.sources[path], start, name_start)
    if found is None:
        raise Refused(f"`{declared.name}` is not declared in a form that can be changed", path, start)
    code = code_of(given.sources[path])
    wishes = (producer.pointer.declared.name, consumer.pointer.declared.name)
    free = [w for w in wishes if not words(code, w, base, base + body.function.span[1])]
    name = free[0] if free else edits.fresh_name(body, wishes[0])
    if found["auto"]:
        draft.replace(path, (name_start, name_end), name)
        shift = len(name) - (name_end - name_start)
    else:
        new = _pointer(found["held"].decode(), _spaced(given.sources, producer.body, producer.pointer)) + name
        draft.replace(path, (start, name_end), new)
        shift = len(new) - (name_end - start)
    callee_end = base + link.made.callee.span[1]
    if b"\n" not in given.sources[path][start:callee_end]:
        _realign(given.sources[path], draft, path, callee_end, shift)
    draft.replace(path, _in_file(body, link.argument.span), name)


def _realign(text: bytes, draft: Draft, path: str, near: int, shift: int) -> None:
    """Lines of a parameter or argument list that are lined up with its parenthesis stay lined up when it moves left."""
    opening = text.find(b"(", near)
    if opening < 0 or shift >= 0:
        return
    column = opening + 1 - (text.rfind(b"\n", 0, opening) + 1)
    depth, at = 0, opening
    code = code_of(text)
    while at < len(code):
        char = code[at : at + 1]
        depth += (char == b"(") - (char == b")")
        if depth == 0:
            return
        if char == b"\n":
            line = text[at + 1 : at + 2 + column]
            if line[:column] == b" " * column and line[column:].strip():
                draft.replace(path, (at + 1, at + 1 - shift), "")
        at += 1


def _spaced(sources: Mapping[str, bytes], body: Body, pointer: DevicePointer) -> bool:
    """The user writes `T *name`, not `T* name`."""
    at = body.function.base + pointer.declared.name_span[0]
    lead = sources[body.function.path][:at]
    return re.search(rb"\s\*\Z", lead[-8:]) is not None


def _pointer(held: str, spaced: bool) -> str:
    return f"{held} *" if spaced else f"{held}* "


def _in_file(body: Body, span: tuple[int, int]) -> tuple[int, int]:
    return body.function.base + span[0], body.function.base + span[1]
