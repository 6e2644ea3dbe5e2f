"""Hover on a launch, a copy, a wait, and on the name of a stream, an event or a buffer: our facts alone, headed with our name, since
a C++ server tells types and signatures beside them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls.capabilities import get_capability
from stitchcuda.server.convert import View, from_position, to_range
from stitchcuda.server.engine.facts import LaunchFact, NamedFact
from stitchcuda.server.features import on_save

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

_WORD = re.compile(rb"[A-Za-z_]\w*")
_SUBSCRIPT = re.compile(r"\[[^\]]*\]")
_MOST_MEMBERS = 3  # of one name, in different records


async def hover(ls: StitchServer, params: t.HoverParams) -> t.Hover | None:
    uri = params.text_document.uri
    # What is known of the text before the last keystrokes, carried over them, is there at once; the reader waits.
    view = await ls.outline_at(uri, params.position) if ls.settings_at(uri).hover else None
    if view is None:
        return None
    at = from_position(view.document, params.position, view.encoding)
    found = _name_at(view, at) or _operation_at(ls, view, at)
    if found is None:
        return None
    lines, span = found
    markdown = t.MarkupKind.Markdown in (
        get_capability(ls.client_capabilities, "text_document.hover.content_format") or ()
    )
    text = "  \n".join(("**stitchcuda**", *lines)) if markdown else "\n".join(("stitchcuda", *lines)).replace("`", "")
    kind = t.MarkupKind.Markdown if markdown else t.MarkupKind.PlainText
    here = to_range(view.document, span, view.encoding)
    return t.Hover(contents=t.MarkupContent(kind=kind, value=text), range=here)


_Found = tuple[tuple[str, ...], tuple[int, int]]  # lines, and what they are about


def _name_at(view: View, at: int) -> _Found | None:
    """The streams, events and buffers that the word at an offset means."""
    line, first = _line_around(view, at)
    word = next((m for m in _WORD.finditer(line) if first + m.start() <= at <= first + m.end()), None)
    if word is None or b"//" in line[: word.start()] or line.lstrip().startswith((b"#", b"*")):
        return None
    before = line[: word.start()].rstrip()
    member = before.endswith(b"->") or before.endswith(b".") and not before.endswith(b"..")
    span = (first + word.start(), first + word.end())
    name = word.group().decode()
    facts = [f for f in view.facts.named if name in f.name and _means(view, f, name, member, span[0])]
    inner = [f for f in facts if f.scope is not None]  # hides what has the name outside
    lines = tuple(line for fact in (inner or facts)[:_MOST_MEMBERS] for line in fact.lines)
    return (lines, span) if lines else None


def _means(view: View, fact: NamedFact, name: str, member: bool, at: int) -> bool:
    parts = re.split(r"\.|->", _SUBSCRIPT.sub("", fact.name))
    if parts[-1] != name or (len(parts) > 1) != member:
        return False
    if fact.scope is None:
        return True
    scope = view.span(fact.scope)
    return scope is not None and scope[0] <= at <= scope[1]


def _line_around(view: View, at: int) -> tuple[bytes, int]:
    number = view.document.lines.line_at(at)
    return view.document.line(number), view.document.line_span(number)[0]


def _operation_at(ls: StitchServer, view: View, at: int) -> _Found | None:
    """The innermost launch, copy or wait around an offset."""
    found: list[tuple[int, _Found]] = []

    def add(span: tuple[int, int], lines: tuple[str, ...], kernel: str) -> None:
        found.append((span[1] - span[0], ((*lines, *on_save.measured(ls, view.document, span[0], kernel)), span)))

    for launch, span in view.touching(view.facts.launches, at, at):
        add(span, describe(launch), launch.kernel)
    for operation, span in view.touching(view.facts.operations, at, at):
        if operation.lines:
            add(span, operation.lines, "")
    return min(found, key=lambda f: f[0])[1] if found else None


def describe(launch: LaunchFact) -> tuple[str, ...]:
    lines = [f"launch of `{launch.kernel}`" if launch.kernel else "launch of a kernel that is not known"]
    if launch.grid or launch.block:
        lines.append(f"grid `{launch.grid or '?'}`, block `{launch.block or '?'}`")
    lines.append(f"stream: {' or '.join(launch.streams) or 'not known'}")
    lines.append(f"reads: {_names(launch.reads, launch.may_read)}")
    lines.append(f"writes: {_names(launch.writes, launch.may_write)}")
    lines.append("ordered after: " + ("; ".join(launch.after) if launch.after else "nothing issued before it"))
    if launch.paths > 1:
        lines.append(f"reached by {launch.paths} call paths")
    return tuple(lines)


def _names(sure: tuple[str, ...], perhaps: tuple[str, ...]) -> str:
    names = [*(f"`{name}`" for name in sure), *(f"perhaps `{name}`" for name in perhaps)]
    return ", ".join(names) or "no buffer that is known"
