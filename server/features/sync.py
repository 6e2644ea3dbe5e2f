"""Document synchronisation: the store follows the client, and an analysis follows the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as t
from stitchcuda.server import sources
from stitchcuda.server.convert import from_changes
from stitchcuda.server.documents import path_of
from stitchcuda.server.features import diagnostics, on_save, project_file, project_settings, rewrite

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer


def did_open(ls: StitchServer, params: t.DidOpenTextDocumentParams) -> None:
    item = params.text_document
    before = ls.documents.at(path_of(item.uri, item.language_id))
    document = ls.documents.open(item.uri, item.language_id, item.version, item.text)
    ls.analyses.opened(document.path)
    if before is not None and before.uri != document.uri:
        diagnostics.clear(ls, before)  # another URI of the file: what is found is told of the newest
    if project_file.is_one(document):
        diagnostics.show_project_file(ls, document)
    elif ls.is_relevant(document):
        ls.analyses.request(document.path, delay=0)


def did_change(ls: StitchServer, params: t.DidChangeTextDocumentParams) -> None:
    uri = params.text_document.uri
    document = ls.documents.change(uri, params.text_document.version, from_changes(params.content_changes))
    if document is None:
        return
    diagnostics.changed(ls, document)


def did_save(ls: StitchServer, params: t.DidSaveTextDocumentParams) -> None:
    document = ls.documents.get(params.text_document.uri)
    if document is None:
        return
    ls.documents.saved(document.uri, sources.read_file(document.path))
    document = ls.documents.get(document.uri) or document
    # Without watched files this is when changes made outside the editor are noticed.
    project_settings.forget(ls)
    if project_file.is_one(document):
        diagnostics.show_again(ls)
    rewrite.forget(ls)
    ls.analyses.disk_changed(())
    if ls.is_relevant(document):
        ls.analyses.request(document.path, delay=0)
    on_save.saved(ls, document)


def did_close(ls: StitchServer, params: t.DidCloseTextDocumentParams) -> None:
    document = ls.documents.close(params.text_document.uri)
    if document is None:
        return
    ls.analyses.closed(document.path)
    on_save.closed(ls, document)
    diagnostics.clear(ls, document)
    # What other files of the program show may rest on text that was never saved.
    for other in ls.documents.all():
        if ls.is_relevant(other):
            ls.analyses.request(other.path, delay=max(ls.settings_of(other.path).delay, 0.05))
