"""The server's commands: the execution graph as text, the status, and cancelling a job."""

from __future__ import annotations

import asyncio
import contextlib
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from stitchcuda.server.engine.analyses import EngineUnavailable
from stitchcuda.server.features import program_jobs
from stitchcuda.server.features.code_action import why_not_run
from stitchcuda.server.not_shown import NotShown

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

FORMATS = ("text", "mermaid", "json", "dot", "svg", "html")
_ENDINGS = ("json", "dot", "svg", "html")
_MEASURED = ("text", "html")


async def graph_text(ls: StitchServer, *arguments: Any) -> str | None:
    """`[uri, function = "", format = "text", show = false, trace = ""]` -> the graph; None when the file has no device work.
    `show` also opens it in the editor. `trace` is the file of a measured run to show on it, or `run`."""
    uri, function, form, show, trace = (*arguments, *("", "", "text", False, "")[len(arguments) :])[:5]
    if not isinstance(uri, str) or not isinstance(function, str) or form not in FORMATS or not isinstance(trace, str):
        raise JsonRpcInvalidParams(
            message=f"stitchcuda.graphText takes uri, function, one of {', '.join(FORMATS)}, whether to show it, and a trace"
        )
    if trace and form not in _MEASURED:
        raise JsonRpcInvalidParams(message=f"a trace is shown as {' or '.join(_MEASURED)} only")
    document = ls.documents.get(uri)
    if document is None or not ls.is_relevant(document):
        return None
    try:
        if trace:
            trace = await asyncio.to_thread(_trace_of, program_jobs.program_of(ls, document), trace)
        text = await ls.analyses.graph_text(document.path, function, form, trace)
    except (EngineUnavailable, NotShown) as error:
        raise JsonRpcException(code=int(t.LSPErrorCodes.RequestFailed), message=str(error)) from error
    if text and show is True:
        await _show(ls, text, function, form)
    return text or None


def _trace_of(program: Path, trace: str) -> str:
    """The file of a measured run: that of the newest run of *Stitch*, or one that is named, from the program's folder; else the name of
    a run. Raises NotShown."""
    from stitchcuda.server import traced  # slow to import, and seldom needed

    if trace == traced.NEWEST:
        return str(traced.newest(program))
    file = (program if program.is_dir() else program.parent) / trace
    return str(file) if file.exists() else trace


async def _show(ls: StitchServer, text: str, function: str, form: str) -> None:
    def write() -> Path:
        import tempfile  # and random, shutil and more: a part of the time in which the server starts

        folder = Path(tempfile.mkdtemp(prefix="stitchcuda-"))
        name = "".join(c if c.isalnum() else "_" for c in function) or "program"
        file = folder / f"{name}-execution-graph.{form if form in _ENDINGS else 'txt'}"
        file.write_text(text, encoding="utf-8")
        return file

    file = await asyncio.to_thread(write)
    opened = False
    if get_capability(ls.client_capabilities, "window.show_document.support"):
        shown = t.ShowDocumentParams(uri=file.as_uri(), external=form == "html", take_focus=True)
        with contextlib.suppress(JsonRpcException):
            opened = (await ls.window_show_document_async(shown)).success
    if not opened:  # a page for a browser where there is none, say
        message = f"The execution graph is in {file}"
        ls.window_show_message(t.ShowMessageParams(type=t.MessageType.Info, message=message))


async def status(ls: StitchServer, *arguments: Any) -> dict[str, Any]:
    """What the server is doing, and why an action is not available."""
    reasons = {"validate": why_not_run(ls), "model": await _why_no_model(ls)}
    return {
        "version": ls.version,
        "documents": len(ls.documents.all()),
        # What the server takes for the text of each document: a client can hold its own against it.
        "texts": {d.uri: {"version": d.version, "sha256": sha256(d.encoded).hexdigest()} for d in ls.documents.all()},
        "channel": "pull" if ls.channel.pulls else "push",
        "encoding": ls.documents.encoding,
        "jobs": ls.jobs.describe(),
        "analysis": ls.analyses.describe(),
        "trusted": ls.trusted,
        "unavailable": {what: why for what, why in reasons.items() if why},
    }


async def _why_no_model(ls: StitchServer) -> str:
    """Why no model would be asked although the settings say so; "" when one would be, or is not wanted."""
    if ls.settings.proposer == "rules":
        return ""
    if not ls.trusted:
        return "the workspace is not trusted, so nothing of it is sent to a model"

    def ask() -> str:
        from stitchcuda.agent.model.endpoint import NoEndpoint
        from stitchcuda.agent.model.opening import configured
        from stitchcuda.server.cli.model_options import NOT_CONFIGURED

        try:
            return "" if configured(Path(ls.roots[0] if ls.roots else ".")) is not None else NOT_CONFIGURED
        except NoEndpoint as error:
            return str(error)

    return await asyncio.to_thread(ask)


def cancel(ls: StitchServer, *arguments: Any) -> bool:
    """`[job id]` -> whether a running job of that id was told to stop."""
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise JsonRpcInvalidParams(message="stitchcuda.cancel takes one job id")
    return ls.jobs.cancel(arguments[0])
