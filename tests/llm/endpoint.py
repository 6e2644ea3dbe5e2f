"""An endpoint of the OpenAI API on loopback whose replies are scripted: a real HTTP server, so that everything between a request
and its reply is tested as it is used.

    with ScriptedEndpoint([say("hello"), fail(429, retry_after=0.1), call("symbol", {"name": "f"})]) as endpoint:
        ...  # endpoint.url is the base URL
        assert "f" in endpoint.requests[0].text

Every POST takes the next answer of the script, whatever API it speaks and whether or not it wants a stream (answers.py has the
answers). An answer may be a function of the request. After the last one comes `then`, again and again; without it the endpoint
answers 418, and `endpoint.unscripted` counts. `GET /models` takes nothing from the script.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.llm.answers import Answer, fail, stream_events, whole_body

LOOK = 0.02  # seconds between looks whether a client is still there
_BLOCK = 1 << 16


@dataclass
class Request:
    """What a client sent. `headers` have names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float  # time.monotonic() of its arrival
    api: str = ""  # chat or responses; "" for others
    counts: bool = True  # whether it took an answer of the script
    ended: str = ""  # "answered", "client left" or "dropped" once the endpoint is done with it
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.body or b"{}")
        assert isinstance(value, dict)
        return value

    @property
    def text(self) -> str:
        """All that the body says to the model: every text in it, one a line."""
        return "\n".join(_texts(self.json))

    @property
    def key(self) -> str:
        """The key it came with, "" without."""
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def streamed(self) -> bool:
        return bool(self.json.get("stream"))

    def left_within(self, seconds: float) -> bool:
        """Whether the client closes the connection before it has its answer."""
        return self.done.wait(seconds) and self.ended == "client left"


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


Scripted = Answer | Callable[[Request], Answer]


class ScriptedEndpoint:
    """A server that runs inside of `with`. Parameters:

    - `models`: names that `GET /models` lists; `models_answer` stands in for that list (`fail(404)`, `hang()`).
    - `key`: the only key that is accepted; any other gets 401. "": every key, and none.
    - `apis`: what is offered; other paths get 404.
    - `rejects`: parameters of a request (`response_format`, `tools`, `stream`, `reasoning_effort`, ...; dotted for inner ones,
      `text.format`) that it answers with 400 and takes nothing from the script for.
    """

    def __init__(
        self,
        script: Iterable[Scripted] = (),
        *,
        then: Scripted | None = None,
        models: Sequence[str] = ("coder",),
        models_answer: Answer | None = None,
        key: str = "",
        apis: Sequence[str] = ("chat", "responses"),
        rejects: Sequence[str] = (),
    ) -> None:
        self.models, self.models_answer, self.key, self.apis, self.rejects = models, models_answer, key, apis, rejects
        self.requests: list[Request] = []  # those that took an answer of the script
        self.all_requests: list[Request] = []  # also those for models, refused keys and rejected parameters
        self.unscripted = 0
        self._script, self._then = list(script), then
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.endpoint = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(LOOK,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL, with `/v1`."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def left(self) -> int:
        """Answers of the script that nobody asked for."""
        return len(self._script)

    @property
    def sent(self) -> str:
        """Everything that reached the endpoint, bodies and headers: a secret must not be in it."""
        every = [[r.path, *r.headers.values(), r.body.decode("utf-8", "replace")] for r in self.all_requests]
        return "\n".join(part for parts in every for part in parts)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """From here on nothing listens at `url`; called at the end of `with`, too."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def answer_to(self, request: Request) -> Answer:
        """What `request` gets; records it. Called by the handler, one thread a connection."""
        with self._lock:
            self.all_requests.append(request)
            refused = self._refused(request)
            if refused is not None:
                request.counts = False
                return refused
            self.requests.append(request)
            if self._script:
                chosen: Scripted = self._script.pop(0)
            elif self._then is not None:
                chosen = self._then
            else:
                self.unscripted += 1
                return fail(418, "the script of this endpoint is over")
        return chosen if isinstance(chosen, Answer) else chosen(request)

    def _refused(self, request: Request) -> Answer | None:
        if self.key and request.key != self.key:
            return fail(401, f"Incorrect API key provided: {request.key[:4]}****", code="invalid_api_key")
        if request.method == "GET" and request.path.partition("?")[0] == "/v1/models":
            listed = {"object": "list", "data": [{"id": m, "object": "model", "created": 1} for m in self.models]}
            return self.models_answer or Answer(status=200, body=json.dumps(listed).encode())
        if request.method != "POST" or request.api not in self.apis:
            return fail(404, f"no {request.method} {request.path} here")
        for name in self.rejects:
            value: Any = request.json
            for part in name.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if value is not None:
                return fail(400, f"Unsupported parameter: '{name}' is not supported.", param=name)
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    endpoint: ScriptedEndpoint

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the tests."""


class _Gone(Exception):
    """The client closed the connection, or the endpoint is closing."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # a body that is cut off can be told from one that is whole
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        api = {"/v1/chat/completions": "chat", "/v1/responses": "responses"}.get(self.path.partition("?")[0], "")
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, body, time.monotonic(), api)
        answer = self.server.endpoint.answer_to(request)
        try:
            request.ended = "answered" if self._answer(request, answer) else "dropped"
        except (_Gone, OSError):
            request.ended = "client left"
            self.close_connection = True
        finally:
            request.done.set()

    def _answer(self, request: Request, answer: Answer) -> bool:
        """False when it drops the connection."""
        self._rest(answer.wait)
        if answer.silent:
            self._rest(None)
        if answer.cut_after == 0:
            return self._drop()
        if answer.status is not None:
            return self._send(answer, answer.status, [answer.body], "application/json", chunked=False)
        if request.streamed:
            return self._send(answer, 200, stream_events(answer, request.api, request.json), "text/event-stream", True)
        if answer.breaks_with:
            failed = fail(500, answer.breaks_with)
            return self._send(failed, 500, [failed.body], "application/json", chunked=False)
        body = whole_body(answer, request.api, request.json)
        return self._send(answer, 200, [body], "application/json", chunked=False)

    def _send(self, answer: Answer, status: int, pieces: Iterable[bytes], kind: str, chunked: bool) -> bool:
        body = b"".join(pieces)
        if answer.spoil is not None:
            body = answer.spoil(body)
        self.send_response(status)
        headers = {"Content-Type": kind, "x-request-id": "req_1", **answer.headers}
        headers |= {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        end = len(body) if answer.cut_after is None else max(1, int(len(body) * answer.cut_after))
        stall = None if answer.stall_after is None else int(len(body) * answer.stall_after)
        step = 1 if answer.pause else _BLOCK if stall is None else max(1, stall)
        for at in range(0, end, step):
            if stall is not None and at >= stall:
                self._rest(None)
            self._rest(answer.pause)
            self._write(body[at : min(at + step, end)], chunked)
        if end < len(body) or answer.cut_after is not None:
            return self._drop()
        if chunked:
            self.wfile.write(b"0\r\n\r\n")
        return True

    def _write(self, data: bytes, chunked: bool) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
        self.wfile.flush()

    def _drop(self) -> bool:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True
        return False

    def _rest(self, seconds: float | None) -> None:
        """Waits, and looks whether the client is there; None: until it is not."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            if self.server.endpoint._closing.is_set():
                raise _Gone
            left = LOOK if end is None else min(LOOK, max(0.0, end - time.monotonic()))
            if select.select([self.connection], [], [], left)[0] and not self.connection.recv(1, socket.MSG_PEEK):
                raise _Gone
            if end is not None and time.monotonic() >= end:
                return
