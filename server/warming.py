"""What the server does once it has answered `initialize`, in short steps between messages: what the first message of each kind, and the
first diagnostics, would do on top of the others. The readers of a kind of message are made when the first one comes, in milliseconds."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from stitchcuda.analysis.syntax.text import Document
from stitchcuda.server import convert
from stitchcuda.server.convert import View
from stitchcuda.server.engine.facts import FileFacts, Place, PlacedEdit, PlacedFinding, PlacedFix, PlacedRelated
from stitchcuda.server.features import diagnostics

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.005  # between two steps
_URI = "file:///warm-up.cu"
_DOCUMENT = {"uri": _URI}
_HERE = {"line": 0, "character": 0}
_RANGE = {"start": _HERE, "end": _HERE}
_DIAGNOSTIC = {
    "range": _RANGE,
    "message": "",
    "code": "leak",
    "source": convert.SOURCE,
    "severity": 1,
    "codeDescription": {"href": _URI},
    "relatedInformation": [{"location": {"uri": _URI, "range": _RANGE}, "message": ""}],
    "tags": [1],
}
MESSAGES: dict[str, dict[str, Any]] = {
    t.TEXT_DOCUMENT_DID_OPEN: {"textDocument": {"uri": _URI, "languageId": "cuda", "version": 0, "text": ""}},
    t.TEXT_DOCUMENT_DID_CHANGE: {
        "textDocument": {"uri": _URI, "version": 0},
        "contentChanges": [{"range": _RANGE, "text": ""}],
    },
    t.TEXT_DOCUMENT_DIAGNOSTIC: {"textDocument": _DOCUMENT},
    t.TEXT_DOCUMENT_CODE_ACTION: {
        "textDocument": _DOCUMENT,
        "range": _RANGE,
        "context": {"diagnostics": [_DIAGNOSTIC]},
    },
    t.TEXT_DOCUMENT_HOVER: {"textDocument": _DOCUMENT, "position": _HERE},
    t.TEXT_DOCUMENT_CODE_LENS: {"textDocument": _DOCUMENT},
    t.TEXT_DOCUMENT_INLAY_HINT: {"textDocument": _DOCUMENT, "range": _RANGE},
    t.TEXT_DOCUMENT_DOCUMENT_SYMBOL: {"textDocument": _DOCUMENT},
    t.TEXT_DOCUMENT_COMPLETION: {"textDocument": _DOCUMENT, "position": _HERE},
    t.TEXT_DOCUMENT_DID_SAVE: {"textDocument": _DOCUMENT},
    t.WORKSPACE_EXECUTE_COMMAND: {"command": "", "arguments": []},
}


async def warm_up(ls: StitchServer) -> None:
    """All steps. What fails is left to the first message that needs it."""
    for step in _steps(ls):
        await asyncio.sleep(_PAUSE_SECONDS)
        try:
            step()
        except Exception as error:  # noqa: BLE001 - nobody asked for it
            log.info("a step of the warm-up failed: %s", type(error).__name__)


def _steps(ls: StitchServer) -> Iterator[Callable[[], object]]:
    for method, params in MESSAGES.items():
        request: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("textDocument/did"):
            request["id"] = 0
        yield lambda request=request: ls.protocol.structure_message(request)  # type: ignore[misc]
        if method == t.TEXT_DOCUMENT_DID_OPEN:
            yield lambda: _told(ls)


def _told(ls: StitchServer) -> list[str]:
    """A finding as the client would be told of it."""
    document = Document.of(_URI, "/warm-up.cu", 0, "cudaFree(x);\n", "cuda")
    place = Place(document.path, 0, 8)
    related, fix = PlacedRelated(place, "here"), PlacedFix("Remove it", True, (PlacedEdit(place, ""),))
    finding = PlacedFinding("leak", "performance", "hint", "certain", place, "it", (related,), (fix,))
    view = View(document, FileFacts(document.path, (finding,)), (), ls.documents.encoding, lambda path: None)
    made = convert.diagnostics(view, ls.settings, ls.client_capabilities, diagnostics.href)
    return [json.dumps(each) for each in made]
