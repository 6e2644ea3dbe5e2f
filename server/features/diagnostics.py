"""Findings as diagnostics, through one channel: pull when the client can pull and be asked to pull again, else push.

A result computed for one version is shown for that version only. When a finding changes without an edit of its file (the
rest of the program was read, another file was edited, a setting changed), pull clients are asked to pull again. Those that
cannot be asked (Neovim 0.11) would go on showing what is no longer true, and so get their findings by push.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls.capabilities import get_capability
from stitchcuda.analysis.syntax.text import Document
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.shipped import folder
from stitchcuda.server.convert import View, shown_findings, to_diagnostic
from stitchcuda.server.features import on_save, project_file
from stitchcuda.server.features.project_settings import settings_at

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer


@dataclass
class Channel:
    """What the client was told last, by URI."""

    pulls: bool = False
    published: dict[str, tuple[int, str]] = field(default_factory=dict)  # push: version and digest of the last list
    answered: dict[str, str] = field(default_factory=dict)  # pull: digest of the last report
    refreshing: bool = False
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # that have something to push


def configure(ls: StitchServer) -> None:
    """Chooses the channel from the client's capabilities. Called before ours are announced."""
    pulls = get_capability(ls.client_capabilities, "text_document.diagnostic") is not None
    ls.channel.pulls = pulls and bool(get_capability(ls.client_capabilities, "workspace.diagnostics.refresh_support"))
    if not ls.channel.pulls:
        ls.protocol.fm.features.pop(t.TEXT_DOCUMENT_DIAGNOSTIC, None)


def diagnostics_of(ls: StitchServer, view: View) -> list[t.Diagnostic]:
    settings = settings_at(ls, view.document.path)
    return [
        to_diagnostic(view, finding, here, settings, ls.client_capabilities, href(finding.code))
        for finding, here in shown_findings(view, settings)
    ]


@cache
def href(code: str) -> str | None:
    """The page about a code that comes with the package."""
    try:
        page = folder("docs") / "rules" / f"{code}.md"
    except CannotRun:
        return None
    return page.as_uri() if page.is_file() else None


# ------------------------------------------------------------------------------------------------------------------ events


def changed(ls: StitchServer, document: Document) -> None:
    """After an edit: analyse again, or take everything back when the file has nothing to do with CUDA any more."""
    on_save.changed(ls, document)
    if project_file.is_one(document):
        show_project_file(ls, document)
    elif not ls.is_relevant(document):
        clear(ls, document)
    elif (settings := ls.settings_of(document.path)).diagnosticsTrigger == "edit":
        ls.analyses.request(document.path, settings.delay)


def show_project_file(ls: StitchServer, document: Document) -> None:
    """Pushes what is wrong in an open project file, unless the client pulls."""

    async def show() -> None:
        items = await project_file.items(ls, document.uri)
        current = ls.documents.get(document.uri)
        if current is not None and current.revision == document.revision:  # else a newer one is on its way
            _send(ls, current, items)

    if not ls.channel.pulls:
        task = asyncio.create_task(show())
        ls.channel.tasks.add(task)
        task.add_done_callback(ls.channel.tasks.discard)


def clear(ls: StitchServer, document: Document) -> None:
    ls.channel.answered.pop(document.uri, None)
    if ls.channel.published.pop(document.uri, None) is not None:
        ls.text_document_publish_diagnostics(t.PublishDiagnosticsParams(uri=document.uri, diagnostics=[]))


def facts_arrived(ls: StitchServer, path: str) -> None:
    """New facts about an open document."""
    document = ls.documents.at(path)
    if document is None or not ls.is_relevant(document):
        return
    latest = ls.analyses.latest(document)
    if latest is None or latest[0] != document.revision:
        return  # facts of an older text; those of the current one will come
    view = ls.view(document.uri)
    if view is None:
        return
    if ls.channel.pulls:
        known = ls.channel.answered.get(document.uri)
        if known is not None and known != digest(diagnostics_of(ls, view)):
            refresh(ls)
        return
    publish(ls, view)


def publish(ls: StitchServer, view: View) -> None:
    _send(ls, view.document, diagnostics_of(ls, view) + on_save_diagnostics(ls, view.document))


def _send(ls: StitchServer, document: Document, items: list[t.Diagnostic]) -> None:
    # An unchanged list goes out too when the version is new: clients drop what belongs to an older one.
    state = (document.version, digest(items))
    if ls.channel.published.get(document.uri) == state:
        return
    ls.channel.published[document.uri] = state
    ls.text_document_publish_diagnostics(
        t.PublishDiagnosticsParams(uri=document.uri, version=document.version, diagnostics=items)
    )


def publish_on_save(ls: StitchServer, document: Document) -> None:
    """On-save findings go out by push to every client; one that pulls the others gets nothing else by push."""
    if not ls.channel.pulls:
        view = ls.view(document.uri)
        if view is not None and ls.is_relevant(document):
            publish(ls, view)
        return
    items = on_save_diagnostics(ls, document)
    state = (document.version, digest(items))
    known = ls.channel.published.get(document.uri)
    if known == state or (known is None and not items):
        return
    ls.channel.published[document.uri] = state
    ls.text_document_publish_diagnostics(
        t.PublishDiagnosticsParams(uri=document.uri, version=document.version, diagnostics=items)
    )


def on_save_diagnostics(ls: StitchServer, document: Document) -> list[t.Diagnostic]:
    settings = settings_at(ls, document.path)
    return [
        to_diagnostic(view, finding, here, settings, ls.client_capabilities, href(finding.code))
        for finding, here, view in on_save.shown(ls, document)
    ]


def refresh(ls: StitchServer) -> None:
    """Asks a pull client to pull again, at most one request at a time."""
    if ls.channel.refreshing:
        return
    ls.channel.refreshing = True
    future = ls.workspace_diagnostic_refresh(None)
    future.add_done_callback(lambda _: setattr(ls.channel, "refreshing", False))


def show_again(ls: StitchServer) -> None:
    """After a change of settings."""
    if ls.channel.pulls:
        refresh(ls)
        return
    for document in ls.documents.all():
        view = ls.view(document.uri)
        if view is not None and ls.is_relevant(document):
            publish(ls, view)


# -------------------------------------------------------------------------------------------------------------------- pull


async def pull(
    ls: StitchServer, params: t.DocumentDiagnosticParams
) -> t.RelatedFullDocumentDiagnosticReport | t.RelatedUnchangedDocumentDiagnosticReport:
    uri = params.text_document.uri
    document = ls.documents.get(uri)
    items: list[t.Diagnostic] = []
    if document is not None and project_file.is_one(document):
        items = await project_file.items(ls, uri)
    elif document is not None and ls.is_relevant(document):
        waits = ls.settings_at(uri).diagnosticsTrigger == "edit" or ls.analyses.latest(document) is None
        if waits:
            await ls.analyses.settled(uri, or_partly=True)  # all of them: `facts_arrived` has the client pull again
        view = ls.view(uri)
        if view is not None:
            items = diagnostics_of(ls, view)
    result = digest(items)
    ls.channel.answered[uri] = result
    if params.previous_result_id == result:
        return t.RelatedUnchangedDocumentDiagnosticReport(result_id=result)
    return t.RelatedFullDocumentDiagnosticReport(items=items, result_id=result)


def digest(items: list[t.Diagnostic]) -> str:
    """Equal for equal lists."""
    plain = [(str(d.range), d.message, d.severity, d.code, str(d.related_information), d.tags) for d in items]
    return hashlib.blake2b(json.dumps(plain, default=str).encode(), digest_size=8).hexdigest()
