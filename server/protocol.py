"""The pygls protocol with the behaviour this server promises where pygls differs.

- Documents live in our own store: pygls' copy splits lines with `str.splitlines` and takes seconds for a change with
  many ranges.
- What a newer or a sloppy client says besides is left out (understood.py). A malformed request is answered with an error, a malformed
  notification is a log line; neither pops up at the user. A malformed answer is an error to what waits for it.
- An exception in a handler gives the client a short error without a traceback, and one log line with the request's id.
- Requests before `initialize` and after `shutdown` are answered with the error the LSP names.
- Cancelling `workspace/executeCommand` cancels the command's coroutine.
- `$/setTrace` makes it say what it answered and how long that took (`$/logTrace`), without parameters and results: those hold the
  user's text.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method
from stitchcuda.server.understood import ROUNDS, leave_out

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

log = logging.getLogger(__name__)


def where(error: BaseException) -> str:
    """Type and innermost place of an exception. Not its message: that may quote the user's text."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "stitchcuda" in f.filename or "/server/" in f.filename or "/analysis/" in f.filename]
    place = (own or frames)[-1:] if frames else []
    return f"{type(error).__name__}" + "".join(f" at {f.filename.rsplit('/', 1)[-1]}:{f.lineno}" for f in place)


def _without_null_ranges(params: Any) -> None:
    """A change of the whole text may say so with a range that is null."""
    changes = params.get("contentChanges") if isinstance(params, dict) else None
    for change in changes if isinstance(changes, list) else ():
        if isinstance(change, dict) and change.get("range", 0) is None:
            del change["range"]


@dataclass(frozen=True, slots=True)
class Written:
    """A result that is JSON already. To make a long list of the protocol's types takes many times as long, in which nobody is answered."""

    text: str


class Protocol(LanguageServerProtocol):
    """See the module docstring."""

    _server: StitchServer

    def __init__(self, server: StitchServer, converter: Any):
        super().__init__(server, converter)
        self._initialized = False
        self.heard = time.monotonic()  # when the last message came
        self._asked: dict[Any, tuple[str, float]] = {}  # traced requests without an answer: method, when

    # ------------------------------------------------------------------------------------------------------- messages

    def handle_json(self, data: dict[str, Any]) -> None:
        """One message from the client, as parsed JSON."""
        self.heard = time.monotonic()
        is_request = "method" in data and "id" in data
        if is_request and (not isinstance(data["id"], int | str) or isinstance(data["id"], bool)):
            log.warning("ignored a request whose id is neither a number nor a text")
            return
        if is_request and (self.trace != t.TraceValue.Off or data["method"] == t.INITIALIZE):
            self._asked[data["id"]] = (str(data["method"]), time.perf_counter())
        if not self._initialized and data.get("method") not in (t.INITIALIZE, t.EXIT):
            if is_request:
                self._refuse(data["id"], t.ErrorCodes.ServerNotInitialized, "the server is not initialized")
            return
        if self._initialized and data.get("method") == t.INITIALIZE and is_request:
            self._refuse(data["id"], t.ErrorCodes.InvalidRequest, "the server is already initialized")
            return
        if is_request and self._shutdown:
            self._refuse(data["id"], t.ErrorCodes.InvalidRequest, "the server is shutting down")
            return
        try:
            message = self._structured(data)
            if isinstance(message, dict):
                if is_request:
                    self._refuse(data["id"], t.ErrorCodes.InvalidRequest, "the request has no JSON-RPC version")
                else:
                    log.warning("ignored a message without a JSON-RPC version")
                return
        except Exception:  # noqa: BLE001 - pygls raises several unrelated types for what it cannot read
            # pygls has logged the reason's type below `error`; what matters to the client is that it gets an answer.
            if is_request:
                self._refuse(data["id"], t.ErrorCodes.InvalidParams, f"bad parameters for {data['method']}")
            elif "method" in data:
                log.warning("ignored a malformed message (%s)", data["method"])
            else:
                self._answered_badly(data.get("id"))
            return
        if is_request and data["method"] == t.INITIALIZE:
            self._initialized = True
            self.trace = message.params.trace or t.TraceValue.Off
        try:
            self.handle_message(message)
        except Exception as error:  # noqa: BLE001 - one bad message must not end the loop
            log.error("message %s failed: %s", data.get("method", "response"), where(error))

    def _structured(self, data: dict[str, Any]) -> Any:
        """`structure_message`, without what cannot be understood where the rest can. Texts are never guessed."""
        method = data.get("method")
        if method == t.TEXT_DOCUMENT_DID_CHANGE:
            _without_null_ranges(data.get("params"))
        guesses = isinstance(method, str) and not method.startswith("textDocument/did")
        for _ in range(ROUNDS if guesses else 0):
            try:
                return self.structure_message(data)
            except JsonRpcException as error:
                left_out = leave_out(data, error.__cause__ or error)
                if not left_out:
                    raise
                log.info("%s: not understood: %s", method, "; ".join(".".join(map(str, path[1:])) for path in left_out))
        return self.structure_message(data)

    def _answered_badly(self, msg_id: Any) -> None:
        log.warning("the client's answer to request %r is malformed", msg_id)
        future = self._request_futures.pop(msg_id, None) if isinstance(msg_id, int | str) else None
        if future is not None and not future.done():
            future.set_exception(JsonRpcInternalError(message="the editor's answer is malformed"))

    def _send_response(self, msg_id: Any, result: Any = None, error: t.ResponseError | None = None) -> None:
        if isinstance(result, Written) and error is None:
            self._result_types.pop(msg_id, None)
            self._write(f'{{"jsonrpc": "2.0", "id": {json.dumps(msg_id)}, "result": {result.text}}}')
        else:
            super()._send_response(msg_id, result, error)
        method, began = self._asked.pop(msg_id, ("", 0.0))
        if method and self.trace != t.TraceValue.Off:
            took = f"{method} answered in {(time.perf_counter() - began) * 1e3:.1f} ms"
            how = None
            if self.trace == t.TraceValue.Verbose:
                how = f"request {msg_id!r}: " + ("a result" if error is None else f"error {error.code}")
            self.notify(t.LOG_TRACE, t.LogTraceParams(message=took, verbose=how))

    def written(self, value: Any) -> str:
        """A value of the protocol's types as JSON."""
        return json.dumps(self._converter.unstructure(value))

    def tell(self, method: str, params: str) -> None:
        """A notification whose parameters are JSON already."""
        self._write(f'{{"jsonrpc": "2.0", "method": {json.dumps(method)}, "params": {params}}}')

    def _write(self, body: str) -> None:
        data = body.encode(self.CHARSET)
        head = f"Content-Length: {len(data)}\r\nContent-Type: {self.CONTENT_TYPE}; charset={self.CHARSET}\r\n\r\n"
        if self.writer is not None:
            self.writer.write(head.encode() + data)

    def _refuse(self, msg_id: Any, code: int, message: str) -> None:
        log.warning("request %r refused: %s", msg_id, message)
        self._send_response(msg_id, error=t.ResponseError(code=int(code), message=message))

    def _handle_response(self, msg_id: Any, result: Any | None = None, error: t.ResponseError | None = None) -> None:
        future = self._request_futures.get(msg_id)
        if future is not None and future.done():  # we gave up waiting, or shut down
            self._request_futures.pop(msg_id, None)
            return
        super()._handle_response(msg_id, result, error)

    # --------------------------------------------------------------------------------------------------------- errors

    def _send_handler_result(self, future: Future[Any], *, msg_id: Any) -> None:
        self._request_futures.pop(msg_id, None)
        if future.cancelled():
            error = t.ResponseError(code=int(t.LSPErrorCodes.RequestCancelled), message="cancelled")
            self._send_response(msg_id, error=error)
            return
        failure = future.exception()
        if failure is None:
            self._send_response(msg_id, result=future.result())
        elif isinstance(failure, JsonRpcException):
            log.warning(
                "request %r: error %d", msg_id, failure.code
            )  # its words, which may quote, are the client's alone
            self._send_response(msg_id, error=t.ResponseError(code=failure.code, message=failure.message))
        else:
            log.error("request %r failed: %s", msg_id, where(failure))
            message = f"stitchcuda could not answer ({type(failure).__name__}); its log has the place"
            self._send_response(msg_id, error=t.ResponseError(code=int(t.ErrorCodes.InternalError), message=message))

    def _check_handler_result(self, future: Future[Any]) -> None:
        if not future.cancelled() and (failure := future.exception()) is not None:
            log.error("notification failed: %s", where(failure))

    # ------------------------------------------------------------------------------------------- methods pygls answers

    @lsp_method(t.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: t.DidOpenTextDocumentParams) -> None:
        self._user(t.TEXT_DOCUMENT_DID_OPEN, params)

    @lsp_method(t.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: t.DidChangeTextDocumentParams) -> None:
        self._user(t.TEXT_DOCUMENT_DID_CHANGE, params)

    @lsp_method(t.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: t.DidCloseTextDocumentParams) -> None:
        self._user(t.TEXT_DOCUMENT_DID_CLOSE, params)

    @lsp_method(t.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    def lsp_work_done_progress_cancel(self, params: t.WorkDoneProgressCancelParams) -> None:
        self._user(t.WINDOW_WORK_DONE_PROGRESS_CANCEL, params)

    @lsp_method(t.EXIT)
    def lsp_exit(self, *args: Any) -> None:  # type: ignore[override]  # a plain function is as good as a generator
        self._server.stop(0 if self._shutdown else 1)

    @lsp_method(t.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> None:  # type: ignore[override]
        current = self.msg_id
        for msg_id, future in list(self._request_futures.items()):
            if msg_id != current and not future.done():
                future.cancel()
        self._shutdown = True
        self._user(t.SHUTDOWN, *args)

    @lsp_method(t.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(self, params: t.ExecuteCommandParams) -> Any:  # type: ignore[override]
        handler = self.fm.commands.get(params.command)
        if handler is None:
            raise JsonRpcInvalidParams(message=f"there is no command {params.command!r}")
        result = handler(*(params.arguments or ()))  # each command checks its own arguments
        return await result if asyncio.iscoroutine(result) else result

    def _user(self, method: str, *args: Any) -> None:
        handler: Callable[..., Any] | None = self.fm.features.get(method)
        if handler is not None:
            handler(*args)
