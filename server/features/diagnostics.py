"""Findings as diagnostics, through one channel: pull, or push where that does not do.

A long list is made in steps, between which requests are answered. A result computed for one version is shown for that
version only. When a finding changes without an edit of its file (the rest of the program was read, another file was
edited, a setting changed), pull clients are asked to pull again. Those that cannot be asked (Neovim 0.11) would go on
showing what is no longer true, and so get their findings by push.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls.capabilities import get_capability
from stitchcuda.analysis.syntax.text import Document
from stitchcuda.server import convert
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.shipped import folder
from stitchcuda.server.convert import View
from stitchcuda.server.features import on_save, project_file
from stitchcuda.server.features.project_settings import settings_at
from stitchcuda.server.protocol import Written

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

_STEP = 50  # findings


@dataclass
class Channel:
    """What the client was told last, by URI."""

    pulls: bool = False
    published: dict[str, tuple[int, str]] = field(default_factory=dict)  # push: version and digest of the last list
    answered: dict[str, str] = field(default_factory=dict)  # pull: digest of the last report
    pulling: Counter[str] = field(default_factory=Counter)  # pulls that are being answered
    refreshing: bool = False  # the client was asked to pull again, and has not answered
    refresh_again: bool = False  # there was a reason meanwhile, which may be newer than what it pulled
    showing: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # by URI: makes a list of new findings
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # that have something to push


def configure(ls: StitchServer) -> None:
    """Chooses the channel from the client's capabilities. Called before ours are announced."""
    pulls = get_capability(ls.client_capabilities, "text_document.diagnostic") is not None
    ls.channel.pulls = pulls and bool(get_capability(ls.client_capabilities, "workspace.diagnostics.refresh_support"))
    if not ls.channel.pulls:
        ls.protocol.fm.features.pop(t.TEXT_DOCUMENT_DIAGNOSTIC, None)


def diagnostics_of(ls: StitchServer, view: View) -> Iterator[str]:
    """Each as JSON."""
    settings = settings_at(ls, view.document.path)
    return map(json.dumps, convert.diagnostics(view, settings, ls.client_capabilities, href))


async def _in_steps(ls: StitchServer, view: View) -> list[str] | None:
    """The same, all of them. None when they are out of date meanwhile."""
    known = ls.analyses.latest(view.document)
    made: list[str] = []
    for diagnostic in diagnostics_of(ls, view):
        made.append(diagnostic)
        if len(made) % _STEP == 0:
            await asyncio.sleep(0)
    document = ls.documents.get(view.document.uri)
    same = document is not None and document.revision == view.document.revision
    return made if same and ls.analyses.latest(view.document) is known else None


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
        items = await _of_project_file(ls, document.uri)
        current = ls.documents.get(document.uri)
        if current is not None and current.revision == document.revision:  # else a newer one is on its way
            _send(ls, current, items)

    if not ls.channel.pulls:
        task = asyncio.create_task(show())
        ls.channel.tasks.add(task)
        task.add_done_callback(ls.channel.tasks.discard)


async def _of_project_file(ls: StitchServer, uri: str) -> list[str]:
    return [ls.protocol.written(item) for item in await project_file.items(ls, uri)]


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
    if ls.channel.pulls and (ls.channel.pulling[document.uri] or document.uri not in ls.channel.answered):
        return  # the client is told what is known when it is answered
    _stop_showing(ls, document.uri)
    ls.channel.showing[document.uri] = asyncio.create_task(_show(ls, view))


async def _show(ls: StitchServer, view: View) -> None:
    made = await _in_steps(ls, view)
    if made is None:
        return
    ls.channel.showing.pop(view.document.uri, None)
    if not ls.channel.pulls:
        _send(ls, view.document, made + on_save_diagnostics(ls, view.document))
    elif ls.channel.answered.get(view.document.uri) != digest(made):
        refresh(ls)


def _stop_showing(ls: StitchServer, uri: str) -> None:
    task = ls.channel.showing.pop(uri, None)
    if task is not None:
        task.cancel()


def publish(ls: StitchServer, view: View) -> None:
    _stop_showing(ls, view.document.uri)
    _send(ls, view.document, [*diagnostics_of(ls, view), *on_save_diagnostics(ls, view.document)])


def _send(ls: StitchServer, document: Document, items: Sequence[str]) -> None:
    # An unchanged list goes out too when the version is new: clients drop what belongs to an older one.
    state = (document.version, digest(items))
    if ls.channel.published.get(document.uri) == state:
        return
    _publish(ls, document, items, state)


def _publish(ls: StitchServer, document: Document, items: Sequence[str], state: tuple[int, str]) -> None:
    ls.channel.published[document.uri] = state
    uri = json.dumps(document.uri)
    params = f'{{"uri": {uri}, "version": {document.version}, "diagnostics": [{", ".join(items)}]}}'
    ls.protocol.tell(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)


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
    _publish(ls, document, items, state)


def on_save_diagnostics(ls: StitchServer, document: Document) -> list[str]:
    settings = settings_at(ls, document.path)
    return [
        json.dumps(convert.diagnostic(view, finding, here, settings, ls.client_capabilities, href(finding.code)))
        for finding, here, view in on_save.shown(ls, document)
    ]


def refresh(ls: StitchServer) -> None:
    """Asks a pull client to pull again, at most one request at a time."""
    if ls.channel.refreshing:
        ls.channel.refresh_again = True
        return
    ls.channel.refreshing = True

    def answered(future: Future[None]) -> None:
        again = ls.channel.refresh_again and not future.cancelled()
        ls.channel.refreshing = ls.channel.refresh_again = False
        if again:
            refresh(ls)

    ls.workspace_diagnostic_refresh(None).add_done_callback(answered)


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


async def pull(ls: StitchServer, params: t.DocumentDiagnosticParams) -> Written:
    """A `DocumentDiagnosticReport`."""
    uri = params.text_document.uri
    ls.channel.pulling[uri] += 1
    try:
        items = await _pulled(ls, uri)
        result = digest(items)
        ls.channel.answered[uri] = result
    finally:
        ls.channel.pulling[uri] -= 1
        if not ls.channel.pulling[uri]:
            del ls.channel.pulling[uri]
    if params.previous_result_id == result:
        return Written(f'{{"kind": "unchanged", "resultId": "{result}"}}')
    return Written(f'{{"kind": "full", "resultId": "{result}", "items": [{", ".join(items)}]}}')


async def _pulled(ls: StitchServer, uri: str) -> list[str]:
    while True:
        document = ls.documents.get(uri)
        if document is not None and project_file.is_one(document):
            return await _of_project_file(ls, uri)
        if document is None or not ls.is_relevant(document):
            return []
        waits = ls.settings_at(uri).diagnosticsTrigger == "edit" or ls.analyses.latest(document) is None
        if waits:
            await ls.analyses.settled(uri, or_partly=True)  # all of them: `facts_arrived` has the client pull again
        view = ls.view(uri)
        items = await _in_steps(ls, view) if view is not None else []
        if items is not None:
            return items


def digest(items: Sequence[str]) -> str:
    """Equal for equal lists."""
    hasher = hashlib.blake2b(digest_size=8)
    for item in items:
        hasher.update(item.encode())
        hasher.update(b",")
    return hasher.hexdigest()
