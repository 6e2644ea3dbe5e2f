"""Which endpoint is spoken to, and who said so: the user (an option, the environment, the user's own settings file), or a file of the
workspace, which is not to be trusted with a key or with sources before the user agrees (approvals.py)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit

from stitchcuda.agent.model.accounting import FREE, Budget, Prices
from stitchcuda.analysis.contract.project import LlmSection

OPENAI = "api.openai.com"
TOTAL = 900.0  # seconds that one request may take, with all that it is asked again
NO_KEY = "no-key"  # local servers want some text where a key stands
URL_VARIABLE, MODEL_VARIABLE, KEY_VARIABLE = "STITCHCUDA_LLM_URL", "STITCHCUDA_LLM_MODEL", "STITCHCUDA_LLM_KEY"


class Api(StrEnum):
    AUTO = "auto"  # responses at OpenAI, else chat completions; the other one where there is no such
    CHAT = "chat"
    RESPONSES = "responses"


class Origin(StrEnum):
    """Who named the address."""

    USER = "user"
    WORKSPACE = "workspace"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`base_url` without a trailing slash. `model` may be empty: the endpoint's only one. Times in seconds: `connect` until the
    connection stands, `silence` between two pieces of a reply, `total` for one request with all that it is asked again.
    `largest_reply` is the most bytes of one reply that are read."""

    base_url: str
    model: str = ""
    origin: Origin = Origin.USER
    said_by: str = ""  # the option, variable or file that named the address
    api: Api = Api.AUTO
    reasoning: str = ""
    stream: bool = True
    prices: Prices = FREE
    connect: float = 10.0
    silence: float = 300.0
    total: float = TOTAL
    largest_reply: int = 16 << 20

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def is_openai(self) -> bool:
        return self.host == OPENAI and self.base_url.startswith("https:")

    @property
    def is_local(self) -> bool:
        """On this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    @property
    def is_encrypted(self) -> bool:
        return self.base_url.startswith("https:")


class NoEndpoint(Exception):
    """What was configured cannot be used. The text is for the user and names the setting."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line or the editor says; "" and None: nothing."""

    base_url: str = ""
    model: str = ""
    api: str = ""
    reasoning: str = ""
    key: str = ""
    said_by: str = "an option"

    def __repr__(self) -> str:  # the key stays out of every message
        return f"Options({self.base_url!r}, {self.model!r})"


NOTHING_SAID = Options()


def choose_endpoint(
    options: Options, environment: Mapping[str, str], user: LlmSection, workspace: LlmSection, *, file: str = ""
) -> Endpoint | None:
    """What the user says goes before what the workspace says; None when nobody names an address. `user` is from the user's own
    settings file, `workspace` from `file`. Raises NoEndpoint."""
    said = (
        (options.base_url, options.said_by, Origin.USER),
        (environment.get(URL_VARIABLE, ""), URL_VARIABLE, Origin.USER),
        (user.base_url, "your settings file", Origin.USER),
        (environment.get("OPENAI_BASE_URL", ""), "OPENAI_BASE_URL", Origin.USER),
        (workspace.base_url, file or "the workspace's stitchcuda.toml", Origin.WORKSPACE),
    )
    found = next(((url.strip(), by, origin) for url, by, origin in said if url.strip()), None)
    if found is None:
        return None
    url, by, origin = found
    prices = _prices(user, workspace)
    return Endpoint(
        checked_url(url, by),
        options.model or environment.get(MODEL_VARIABLE, "") or user.model or workspace.model,
        origin,
        by,
        Api(options.api or user.api or workspace.api or "auto"),
        options.reasoning or user.reasoning or workspace.reasoning,
        user.stream and workspace.stream,
        prices,
        total=user.timeout or workspace.timeout or TOTAL,
    )


def checked_url(url: str, by: str) -> str:
    """Raises NoEndpoint. The text never repeats the address: there may be a password in it."""
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port
    except ValueError:
        raise NoEndpoint(f"{by}: no address of an endpoint; expected http(s)://host:port/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise NoEndpoint(f"{by}: no address of an endpoint; expected http(s)://host:port/v1")
    if parts.username is not None or parts.password is not None:
        raise NoEndpoint(f"{by}: a user or password stands in the address; a key belongs into {KEY_VARIABLE}")
    if parts.query or parts.fragment:
        raise NoEndpoint(f"{by}: nothing may follow the path of the address, such as ?key=...")
    return url.rstrip("/")


def choose_key(endpoint: Endpoint, options: Options, environment: Mapping[str, str]) -> str:
    """The key to send, `NO_KEY` without one. OPENAI_API_KEY is for OpenAI, and for an address that the user named."""
    key = options.key or environment.get(KEY_VARIABLE, "")
    if not key and (endpoint.origin is Origin.USER or endpoint.is_openai):
        key = environment.get("OPENAI_API_KEY", "")
    return key.strip() or NO_KEY


def choose_budget(option: Budget, user: LlmSection, workspace: LlmSection) -> Budget:
    """An option goes before the user's file; the workspace can only make a budget smaller."""

    def smaller(said: float | None, own: float, there: float, default: float | None) -> float | None:
        mine = said if said is not None else own or None
        if not there:
            return mine
        most = mine if mine is not None else default
        return there if most is None else min(most, there)

    defaults = Budget().filled()

    def whole(name: str) -> int | None:
        value = smaller(getattr(option, name), getattr(user, name), getattr(workspace, name), getattr(defaults, name))
        return None if value is None else int(value)

    def amount(name: str) -> float | None:
        return smaller(getattr(option, name), getattr(user, name), getattr(workspace, name), getattr(defaults, name))

    return Budget(whole("rounds"), whole("tokens"), amount("money"), amount("seconds"), amount("gpu_seconds"))


def _prices(user: LlmSection, workspace: LlmSection) -> Prices:
    """The dearer one counts: a workspace cannot make a budget of money last longer."""
    cached = user.cached_price or None
    return Prices(max(user.input_price, workspace.input_price), max(user.output_price, workspace.output_price), cached)
