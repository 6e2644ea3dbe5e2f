"""Asking the client, once it listens, to tell us of something."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.exceptions import JsonRpcException

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

log = logging.getLogger(__name__)

_ANSWER_SECONDS = 3.0


async def register(ls: StitchServer, name: str, method: str, options: Any) -> None:
    """A client that refuses, or does not answer, does not tell us; what comes next comes all the same."""
    registration = t.Registration(id=name, method=method, register_options=options)
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await ls.client_register_capability_async(t.RegistrationParams(registrations=[registration]))
    except (TimeoutError, JsonRpcException):
        log.warning("the client did not register %s", method)
