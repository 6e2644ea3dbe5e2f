"""Completion in stitchcuda.toml: sections, keys, values. Nothing is completed in sources: a C++ server does that."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from lsprotocol import types as t
from stitchcuda.analysis.contract.project_text import KEYS, SEVERITIES, choices
from stitchcuda.analysis.contract.toml_places import Statement, statements
from stitchcuda.analysis.syntax.text import Document, decode
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.shipped import folder
from stitchcuda.server.convert import from_position, to_range
from stitchcuda.server.features import project_file

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

TRIGGERS = ["[", '"', "'", "="]
_WORD = re.compile(r"[\w-]*$")
_ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)
_Options = list[tuple[str, str]]  # texts to insert, each with what it means


async def complete(ls: StitchServer, params: t.CompletionParams) -> list[t.CompletionItem] | None:
    document = ls.documents.get(params.text_document.uri)
    if document is None or not project_file.is_one(document):
        return None
    at = from_position(document, params.position, ls.documents.encoding)
    before, after = decode(document.encoded[:at]), decode(document.encoded[at:])
    line = before.rsplit("\n", 1)[-1]
    kind, options = await _options(ls, document, before, after, line)
    typed = _WORD.search(line)
    assert typed is not None
    begin = at - len(typed[0])
    quote = line[-len(typed[0]) - 1 : len(line) - len(typed[0])]
    end = at
    if quote in ('"', "'") and _is_open(
        line, quote
    ):  # the text is in quotes already, and an editor may have closed them
        options = [(text.strip('"'), meaning) for text, meaning in options]
    here = to_range(document, (begin, end), ls.documents.encoding)
    return [
        t.CompletionItem(
            label=text.strip('"').removesuffix(" = "),
            kind=kind,
            documentation=meaning or None,
            text_edit=t.TextEdit(range=here, new_text=text),
            sort_text=f"{number:03}",
        )
        for number, (text, meaning) in enumerate(options)
    ]


async def _options(
    ls: StitchServer, document: Document, before: str, after: str, line: str
) -> tuple[t.CompletionItemKind, _Options]:
    """What may stand at a place."""
    rest = after.split("\n", 1)[0]
    known = statements(before[: len(before) - len(line)])
    table = next((s.path for s in reversed(known) if s.value is None), ())
    head = f"[{'.'.join(table)}]" if table else ""  # what follows belongs to the same table
    everything = (*known, *statements(head + after[len(rest) :]))
    if re.fullmatch(r"\s*\[[\w.-]*", line):
        there = {s.path[0] for s in everything if s.value is None and s.path}
        close = "" if rest.startswith("]") else "]"
        return t.CompletionItemKind.Module, [(f"{s}{close}", _section(s)) for s in KEYS if s not in there]
    if (value := re.fullmatch(r"""\s*([\w"'.-]+)\s*=\s*(.*)""", line)) is not None:
        key = (*table, *(part.strip("\"'") for part in value[1].split(".")))
        return t.CompletionItemKind.Value, await _values(ls, document, key, value[2])
    if (opened := _open_list(known, before)) is not None:
        return t.CompletionItemKind.Value, await _values(ls, document, opened, "[")
    if not re.fullmatch(r"\s*[\w-]*", line):
        return t.CompletionItemKind.Text, []
    if table == ("check", "severity"):
        return t.CompletionItemKind.Property, [(f"{code} = ", "") for code in await _codes(groups=False)]
    if len(table) != 1 or table[0] not in KEYS:
        sections = [(f"[{s}]", _section(s)) for s in KEYS] if not table else []
        return t.CompletionItemKind.Module, sections
    section = table[0]
    there = {s.path[1] for s in everything if len(s.path) > 1 and s.path[0] == section}
    return t.CompletionItemKind.Property, [(f"{k} = ", _meaning(section, k)) for k in KEYS[section] if k not in there]


def _open_list(known: Iterable[Statement], before: str) -> tuple[str, ...] | None:
    """The key whose list of several lines holds the end of the text."""
    last = next((s for s in reversed(tuple(known)) if s.value is not None), None)
    if last is None or last.value is None:
        return None
    text = re.sub(r"""#.*|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""", "", before[last.value[0] :])
    return last.path if text.startswith("[") and text.count("[") > text.count("]") else None


async def _values(ls: StitchServer, document: Document, key: tuple[str, ...], value: str) -> _Options:
    """Values of a key, of which `value` is written so far."""
    if (
        len(key) == 3
        and key[:2] == ("check", "severity")
        or key == ("check", "severity")
        and re.search(r"=[^,]*$", value)
    ):
        return [(f'"{level}"', "") for level in SEVERITIES]
    if key == ("check", "severity"):
        return [(f"{code} = ", "") for code in await _codes(groups=False)] if value.startswith("{") else []
    in_list = value.startswith("[")
    if key in (("check", "select"), ("check", "ignore")):
        words = await _codes(groups=True) if in_list else []
        return [(f'"{word}"', "") for word in words]
    if key == ("contract", "scope"):
        return [(f'"{name}"', "") for name in _functions(ls, document)] if in_list else []
    return [(text, "") for text in choices(*key)] if len(key) == 2 else []


def _functions(ls: StitchServer, document: Document) -> list[str]:
    """Host functions with device work in the open files below the folder of the file."""
    below = os.path.dirname(document.path) + os.sep
    views = [ls.known_outline(other) for other in ls.documents.all() if other.path.startswith(below)]
    return sorted({f.name for view in views if view is not None for f in view.facts.functions if not f.kernel})


async def _codes(*, groups: bool) -> list[str]:
    """Finding codes, with the groups and `all` where those are words, too."""

    def read() -> list[str]:
        from stitchcuda.analysis.findings.finding import Group  # slow to import, and seldom needed
        from stitchcuda.analysis.rules import BY_CODE
        from stitchcuda.server.report.codes import ALL

        return [*([ALL, *(group.value for group in Group)] if groups else []), *BY_CODE]

    return await asyncio.to_thread(read)


def _is_open(line: str, quote: str) -> bool:
    return line.count(quote) % 2 == 1


def _section(name: str) -> str:
    """The first sentence of the page about a section."""
    found = re.search(rf"^## \[{name}\]\n+(.*?)(?=^\||^## |\Z)", _page(), re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()).split(". ")[0] if found is not None else ""


def _meaning(section: str, key: str) -> str:
    """The page's row about a key."""
    text = re.search(rf"^## \[{section}\]\n(.*?)(?=^## |\Z)", _page(), re.MULTILINE | re.DOTALL)
    row = next((row for row in _ROW.finditer(text[1]) if row[1] == key), None) if text is not None else None
    return f"{row[2]}\ndefault: {row[3]}".replace("`", "") if row is not None else ""


@cache
def _page() -> str:
    try:
        return (folder("docs") / "stitchcuda-toml.md").read_text(encoding="utf-8")
    except (CannotRun, OSError):
        return ""
