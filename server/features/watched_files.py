"""Files that changed outside the editor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls.capabilities import get_capability
from stitchcuda.server.documents import path_of
from stitchcuda.server.features import diagnostics, project_settings, registration, rewrite

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

_PATTERNS = (
    "**/*.{cu,cuh,c,cc,cpp,cxx,h,hh,hpp,hxx,inl,py}",
    "**/CMakeLists.txt",
    "**/compile_commands.json",
    *(f"**/{name}" for name in project_settings.FILES),
)


async def register(ls: StitchServer) -> None:
    """Asks the client to watch, when it can; else saving is when we look."""
    if not get_capability(ls.client_capabilities, "workspace.did_change_watched_files.dynamic_registration"):
        return
    watchers = [t.FileSystemWatcher(glob_pattern=pattern) for pattern in _PATTERNS]
    options = t.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
    await registration.register(ls, "stitchcuda-files", t.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)


def did_change(ls: StitchServer, params: t.DidChangeWatchedFilesParams) -> None:
    paths = [path_of(change.uri) for change in params.changes]
    if project_settings.are_among(paths):
        project_settings.forget(ls)
        diagnostics.show_again(ls)
    outside = [path for path in paths if ls.documents.at(path) is None]
    if not outside:
        return  # open documents come through didChange
    rewrite.forget(ls)
    ls.analyses.disk_changed(outside)
    for document in ls.documents.all():
        if ls.is_relevant(document):
            ls.analyses.request(document.path, delay=max(ls.settings_of(document.path).delay, 0.05))
