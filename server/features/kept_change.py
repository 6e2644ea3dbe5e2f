"""Telling that a change was not applied, and where it is kept."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException
from stitchcuda.server.features import program_jobs

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

SHOW = "Show the Change"
_ANSWER_SECONDS = 600.0
_asking: set[asyncio.Task[None]] = set()  # a task that nobody holds may be collected


def tell(ls: StitchServer, text: str, patch: Path | None) -> None:
    """Says it, with where the change can be read. VS Code gets a button that opens it: there a question
    waits at the side. Other editors put one between the user and the text, which would take keys that are typed into it."""
    if patch is not None:
        text += f". To read it: {patch}"
    can_open = get_capability(ls.client_capabilities, "window.show_document.support")
    if patch is None or not can_open or not ls.client_asks_aside:
        program_jobs.show(ls, text, t.MessageType.Warning)
        return
    task = asyncio.create_task(_ask(ls, text, patch))
    _asking.add(task)
    task.add_done_callback(_asking.discard)


async def _ask(ls: StitchServer, text: str, patch: Path) -> None:
    params = t.ShowMessageRequestParams(
        type=t.MessageType.Warning, message=text, actions=[t.MessageActionItem(title=SHOW)]
    )
    with contextlib.suppress(TimeoutError, JsonRpcException):
        async with asyncio.timeout(_ANSWER_SECONDS):
            chosen = await ls.window_show_message_request_async(params)
        if chosen is not None and chosen.title == SHOW:
            await ls.window_show_document_async(t.ShowDocumentParams(uri=patch.as_uri(), take_focus=True))
