"""An open stitchcuda.toml: what is wrong in it, as diagnostics where it stands. What is right is said by the reader of the file
(analysis/contract/project_text.py), which the commands use as well."""

from __future__ import annotations

import asyncio
import importlib
import os
from functools import cache
from typing import TYPE_CHECKING

from lsprotocol import types as t
from stitchcuda.analysis.contract.project_text import parse_project
from stitchcuda.analysis.contract.toml_places import place_of, place_of_error
from stitchcuda.analysis.syntax.text import Document, encode
from stitchcuda.server.check_files import unknown_words
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.shipped import folder
from stitchcuda.server.convert import SOURCE, to_range

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

NAME = "stitchcuda.toml"
CODE = "stitchcuda-toml"


def is_one(document: Document) -> bool:
    return os.path.basename(document.path) == NAME


async def items(ls: StitchServer, uri: str) -> list[t.Diagnostic]:
    """What is wrong with the current text."""
    # The codes that the file may name come with the rules, which take a quarter of a second to import: not on the event loop.
    await asyncio.to_thread(importlib.import_module, "stitchcuda.server.report.codes")
    document = ls.documents.get(uri)
    return _diagnostics_of(ls, document) if document is not None else []


def _diagnostics_of(ls: StitchServer, document: Document) -> list[t.Diagnostic]:
    text = document.text
    project, problems = parse_project(text)
    found = [(problem.key, problem.what) for problem in problems] + list(unknown_words(project.check))
    diagnostics = []
    for key, what in found:
        start, end = place_of(text, key) if key else place_of_error(text, what)
        span = (len(encode(text[:start])), len(encode(text[:end])))
        diagnostics.append(
            t.Diagnostic(
                range=to_range(document, span, ls.documents.encoding),
                message=f"{key}: {what}" if key else what,
                severity=t.DiagnosticSeverity.Error,
                code=CODE,
                code_description=t.CodeDescription(href=page) if (page := _page()) is not None else None,
                source=SOURCE,
                data={"rule": CODE},
            )
        )
    return sorted(diagnostics, key=lambda d: (d.range.start.line, d.range.start.character))


@cache
def _page() -> str | None:
    """The page about the file that comes with the package."""
    try:
        return (folder("docs") / "stitchcuda-toml.md").as_uri()
    except CannotRun:
        return None
