"""One connection to an endpoint, over the `openai` library. It sends what it is given and nothing else: no headers about this machine,
none from variables that are meant for another endpoint, no redirects (they would carry sources elsewhere), no silent retries.

The library (extra `llm`) is imported when a connection is opened, not before.
"""

from __future__ import annotations

import contextlib
import datetime
import email.utils
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from stitchcuda.agent.model.endpoint import Api, Endpoint
from stitchcuda.agent.model.messages import ModelError
from stitchcuda.agent.model.wire import error_text
from stitchcuda.gpu_validate.extras import how_to_install

if TYPE_CHECKING:
    import httpx2
    import openai

MISSING = f"the language model needs the openai library: {how_to_install('llm')}"
_HEADERS = {"host", "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type"}
_LIBRARY = "x-stainless-raw-response"  # by which the library knows how to hand over the answer; it says nothing else
_OWN_HEADERS = {"openai-organization", "openai-project"}  # of the user's account there; for OpenAI alone


class Failure(Exception):
    """One attempt failed. `status` is 0 when there was no answer; `connected` says whether the request may have been worked on.
    `said` is what the endpoint said, and the parameter that it named."""

    def __init__(
        self, said: str, *, status: int = 0, connected: bool = True, retry_after: float | None = None, code: str = ""
    ) -> None:
        super().__init__(said)
        self.said, self.status, self.connected, self.retry_after, self.code = said, status, connected, retry_after, code


@dataclass(frozen=True)
class Opened:
    """An answer whose body is still to come, at most one byte more than the endpoint's `largest_reply`. `pieces` raises Failure."""

    is_stream: bool
    pieces: AsyncIterator[bytes]


class Connection:
    """Inside of `open_connection`. Every method raises Failure."""

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._client = client

    @contextlib.asynccontextmanager
    async def post(self, api: Api, body: Mapping[str, Any]) -> AsyncIterator[Opened]:
        async with _failures():
            create: Any = (
                self._client.chat.completions if api is Api.CHAT else self._client.responses
            ).with_streaming_response.create
            async with create(**body) as response:
                kind = response.headers.get("content-type", "")
                yield Opened("text/event-stream" in kind, _pieces(response))

    async def models(self) -> bytes:
        """The body of `GET /models`."""
        async with _failures(), self._client.models.with_streaming_response.list() as response:
            return b"".join([piece async for piece in response.iter_bytes()])


def cannot_connect() -> str:
    """Why no endpoint can be asked from here, "" when one can."""
    return "" if find_spec("openai") is not None else MISSING


@contextlib.asynccontextmanager
async def open_connection(endpoint: Endpoint, key: str) -> AsyncIterator[Connection]:
    """Raises ModelError without the library."""
    try:
        import httpx2
        import openai
    except ImportError:
        raise ModelError(MISSING) from None
    allowed = _HEADERS | {_LIBRARY} | (_OWN_HEADERS if endpoint.is_openai else set())

    async def prepare(request: httpx2.Request) -> None:
        for name in [n for n in request.headers if n.lower() not in allowed]:
            del request.headers[name]
        request.headers["Authorization"] = f"Bearer {key}"  # whatever OPENAI_CUSTOM_HEADERS says
        request.headers["User-Agent"] = "stitchcuda"
        request.headers["Accept-Encoding"] = "identity"  # a small body must not become a huge one

    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _bounded(response.stream, endpoint.largest_reply)

    timeout = httpx2.Timeout(endpoint.silence, connect=endpoint.connect)
    async with httpx2.AsyncClient(
        timeout=timeout,
        follow_redirects=False,
        trust_env=not endpoint.is_local,  # proxies and certificates of the environment
        event_hooks={"request": [prepare], "response": [bound]},
    ) as http:
        client = openai.AsyncOpenAI(
            api_key=key, base_url=endpoint.base_url, max_retries=0, timeout=timeout, http_client=http
        )
        yield Connection(client)


async def _pieces(response: openai.AsyncAPIResponse[Any]) -> AsyncIterator[bytes]:
    """Raises Failure where the connection is lost."""
    async with _failures():
        async for piece in response.iter_bytes():
            yield piece


def _bounded(stream: httpx2.AsyncByteStream, most: int) -> httpx2.AsyncByteStream:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = most + 1
            async for piece in stream:
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


@contextlib.asynccontextmanager
async def _failures() -> AsyncIterator[None]:
    """Turns what the libraries raise into Failure."""
    import httpx2
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        headers = error.response.headers
        said = error_text({"error": error.body}) if error.body else f"HTTP {error.status_code}"
        if 300 <= error.status_code < 400:
            said = f"it redirects to {headers.get('location', 'another address')[:200]}, which is not followed"
        param = error.param if isinstance(error.param, str) else ""
        code = error.code if isinstance(error.code, str) else ""
        said = f"{said} ({param})" if param and param not in said else said
        raise Failure(said, status=error.status_code, retry_after=retry_after(headers), code=code) from None
    except (openai.APITimeoutError, httpx2.TimeoutException) as error:
        cause = error.__cause__ if isinstance(error, openai.APITimeoutError) else error
        connecting = isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout)
        raise Failure("no connection in time" if connecting else "it fell silent", connected=not connecting) from None
    except (openai.APIConnectionError, httpx2.RequestError) as error:
        cause = error.__cause__ if isinstance(error, openai.APIConnectionError) else error
        connecting = isinstance(cause, httpx2.ConnectError | httpx2.UnsupportedProtocol | httpx2.ProxyError)
        said = f"no connection ({cause})" if connecting else f"the connection was lost ({cause or 'closed'})"
        raise Failure(said, connected=not connecting) from None
    except openai.OpenAIError as error:
        raise Failure(f"no request can be made ({error})", connected=False) from None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an answer asks to wait: a number, or a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) / unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        moment = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, (moment - datetime.datetime.now(datetime.UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
