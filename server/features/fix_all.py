"""All safe fixes of a file at once: `source.fixAll.stitchcuda`, as editors run it on save, and the command for clients that cannot
resolve actions. What is changed is what `check --fix` changes in the file: each fix is proved by a new analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from stitchcuda.server.convert import View, is_shown, takes_versions, to_workspace_edit
from stitchcuda.server.engine.analyses import EngineUnavailable
from stitchcuda.server.engine.facts import FileFacts, Place, PlacedEdit
from stitchcuda.server.features import program_jobs
from stitchcuda.server.features.project_settings import settings_at

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

KIND = "source.fixAll.stitchcuda"
TITLE = "Fix all that stitchcuda can fix safely"
COMMAND = "stitchcuda.fixAll"


def action(ls: StitchServer, view: View, resolves: bool) -> t.CodeAction | None:
    """None when no finding of the file has a safe fix."""
    settings = settings_at(ls, view.document.path)
    fixed = (f for f in view.facts.findings if any(fix.preferred for fix in f.fixes) and is_shown(f, settings))
    if not any(view.span(finding.place) is not None for finding in fixed):
        return None
    if resolves:
        return t.CodeAction(title=TITLE, kind=KIND, data={"uri": view.document.uri, "fix_all": True})
    command = t.Command(title=TITLE, command=COMMAND, arguments=[view.document.uri])
    return t.CodeAction(title=TITLE, kind=KIND, command=command)


async def edit(ls: StitchServer, uri: str, versioned: bool) -> t.WorkspaceEdit:
    """The edit for the current text. Raises what the client is told."""
    document = ls.documents.get(uri)
    if document is None or not ls.is_relevant(document):
        raise JsonRpcInvalidParams(message=f"{COMMAND} takes the URI of an open file that uses CUDA")
    try:
        answer = await ls.analyses.fix_all(document.path, settings_at(ls, document.path))
    except EngineUnavailable as error:
        raise JsonRpcException(code=int(t.LSPErrorCodes.RequestFailed), message=str(error)) from error
    document = ls.documents.get(uri)
    if document is None or document.revision != answer.revision:
        raise JsonRpcException(code=int(t.LSPErrorCodes.ContentModified), message="the text has changed meanwhile")
    view = View(document, FileFacts(document.path), (), ls.documents.encoding, ls.documents.snapshot)
    edits = [PlacedEdit(Place(document.path, start, end), text) for start, end, text in answer.edits]
    return to_workspace_edit(view, edits, versioned) or t.WorkspaceEdit()


async def fix_all(ls: StitchServer, *arguments: Any) -> bool:
    """`[uri]` -> whether something was changed."""
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise JsonRpcInvalidParams(message=f"{COMMAND} takes the URI of an open file that uses CUDA")
    if not get_capability(ls.client_capabilities, "workspace.apply_edit"):
        raise program_jobs.refuse("this editor takes no edits from a language server")
    change = await edit(ls, arguments[0], takes_versions(ls.client_capabilities))
    if not (change.changes or change.document_changes):
        return False
    answer = await ls.workspace_apply_edit_async(t.ApplyWorkspaceEditParams(edit=change, label=TITLE))
    return answer.applied
