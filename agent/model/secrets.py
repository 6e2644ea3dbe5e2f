"""Takes secrets out of every text before it is sent or written down: keys and tokens in the forms of well-known services, private key
blocks, passwords in addresses and headers, what is assigned to names that speak of secrets, and the values of the secret
variables of this environment, wherever they stand.

The number of lines stays as it was, so that line numbers still fit.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import quote

REMOVED = "[secret removed]"
_SHORTEST_VALUE = 6  # characters; shorter values of variables would take words out of every text
_PLAIN_VALUES = {"false", "enabled", "disabled", "default", "unset", "nothing", "localhost"}


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text without secrets, and how many of each kind were taken out."""

    text: str
    removed: Mapping[str, int]


class Redactor:
    """`environment` is searched for variables with names of secrets; `known` are further secrets, such as the key in use."""

    def __init__(self, environment: Mapping[str, str] | None = None, known: Iterable[str] = ()) -> None:
        environment = os.environ if environment is None else environment
        held = {v.strip() for name, v in environment.items() if _holds_secret(name, v.strip())}
        values = {v for v in held if _worth_removing(v)} | {
            k.strip() for k in known if len(k.strip()) >= _SHORTEST_VALUE
        }
        forms = {form for value in values for form in _forms(value)}
        self._values = sorted(forms, key=len, reverse=True)
        self._placeholder = REMOVED if not any(v in REMOVED for v in self._values) else "***"

    def clean(self, text: str) -> Cleaned:
        removed: Counter[str] = Counter()
        text = self._without_values(text, removed)
        for kind, pattern in _PATTERNS:
            text = pattern.sub(lambda m, kind=kind: self._replace(m, kind, removed), text)  # type: ignore[misc]
        for assigned in (_ASSIGNED, _STARTED):
            text = assigned.sub(lambda m: self._assigned(m, removed), text)
        return Cleaned(text, dict(removed))

    def text(self, text: str) -> str:
        return self.clean(text).text

    def _without_values(self, text: str, removed: Counter[str]) -> str:
        for value in self._values:
            if value in text:
                removed["value of a secret variable"] += text.count(value)
                text = text.replace(value, self._placeholder + "\n" * value.count("\n"))
        return text

    def _replace(self, match: re.Match[str], kind: str, removed: Counter[str]) -> str:
        """Takes out the group `secret`, or all."""
        whole = match[0]
        group = "secret" if "secret" in match.re.groupindex and match["secret"] is not None else 0
        secret = match[group]
        if REMOVED in secret or secret == self._placeholder:
            return whole
        removed[kind] += 1
        start = match.start(group) - match.start()
        return whole[:start] + self._placeholder + "\n" * secret.count("\n") + whole[start + len(secret) :]

    def _assigned(self, match: re.Match[str], removed: Counter[str]) -> str:
        quoted = match["quoted"]
        value = quoted if quoted is not None else match["bare"]
        group = "quoted" if quoted is not None else "bare"
        if match["comma"] and value.isalpha():  # a list of words
            return match[0]
        if not _is_secret(match["option"] or match["name"], value, quoted is not None):
            return match[0]
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        removed["assigned to a name of a secret"] += 1
        return match[0][:start] + self._placeholder + match[0][end:]


def speaks_of_secrets(name: str) -> bool:
    """Whether a variable's name says that its value is secret: `GITHUB_TOKEN`, `dbPassword`, `api-key`."""
    return _kind_of(name) not in ("", "some key")


_PASSWORDS = ("password", "passwd", "passphrase", "passcode")
_TOKENS = ("token", "secret", "apikey", "credential", "credentials")
_WORDS = {"pwd": "password", "secrets": "token", "auth": "token", "bearer": "token"}
_KEYS = {"api", "access", "private", "secret", "encryption", "signing", "account", "storage", "license", "ssh", "llm"}
_NAMES = {*_PASSWORDS, *_TOKENS, *_WORDS}
_NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _kind_of(name: str) -> str:
    """ "password", "token", "key", "some key" (of a map, or a secret one), or ""."""
    parts = [part.lower() for part in _NAME_PARTS.findall(name)]
    kinds = {_WORDS.get(part, "") for part in parts}
    if "password" in kinds or any(part.endswith(_PASSWORDS) for part in parts):  # also PGPASSWORD
        return "password"
    if "token" in kinds or any(part.endswith(_TOKENS) for part in parts):
        return "token"
    if any(word in _KEYS and after == "key" for word, after in pairwise(parts)):
        return "key"
    return "some key" if parts and parts[-1] == "key" else ""


def _holds_secret(name: str, value: str) -> bool:
    return speaks_of_secrets(name) or _kind_of(name) == "some key" and _is_generated(value)


def _worth_removing(value: str) -> bool:
    if len(value) < _SHORTEST_VALUE or value.lower() in _PLAIN_VALUES or value.isdigit() and len(value) < 8:
        return False
    return not (os.path.isabs(value) and os.path.lexists(value))  # a file or socket holds the secret, its path is none


def _forms(value: str) -> Iterable[str]:
    """As it stands, and as it stands in JSON and in addresses."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="", errors="replace")


def _is_secret(name: str, value: str, quoted: bool) -> bool:
    kind = _kind_of(name)
    if not kind or _is_no_value(value):
        return False
    if kind == "some key":
        return _is_generated(value)
    if kind == "password" and len(value) >= 4 and (quoted or name.isupper()):
        return True  # a bare word is a value where names are in capitals; in programs it is another variable
    if name.isupper() and re.fullmatch(r"[A-Za-z0-9+/=]{32,}", value) and _bits(value) >= 4.0:
        return True  # of a variable of the environment; of many letters some happen to be no digits
    return len(value) >= (8 if kind == "password" else 16) and _random(value, quoted) and _bits(value) >= 3.0


def _is_no_value(value: str) -> bool:
    if REMOVED in value or value.lower() in _NAMES or set(value) <= set("*x.<>"):
        return True
    return bool(_PLACEHOLDER.fullmatch(value) or _FORMAT.search(value))


# A text that a program prints or fills in, an expression, something that is not the secret itself.
_FORMAT = re.compile(r"%[-+ 0-9.]*[sdifuxgc]|\{[\w.:!]*\}|\$[\w{(]|\s{2}|^\S+ \S+ |^/")
_PLACEHOLDER = re.compile(r"<[^<>]*>|(?:your|my|the)[-_ ].*|change[-_ ]?me|example|none|null|true|false", re.IGNORECASE)


def _random(value: str, quoted: bool) -> bool:
    """Digits among letters, and no name, number or path of a program."""
    digits = sum(c.isdigit() for c in value)
    if digits < 2 or not any(c.isalpha() for c in value):
        return False
    if quoted:
        return not re.fullmatch(r"[\w.-]*\.[A-Za-z]{1,5}|0x[0-9a-fA-F]{1,16}", value)
    words = re.split(r"[_.]|->|::", value)
    return digits >= 4 and "." not in value[1:-1] and not all(re.fullmatch(r"[A-Za-z]*\d*|\d+[a-z]+", w) for w in words)


def _is_generated(value: str) -> bool:
    """Nothing that a person would name a thing by."""
    if not re.fullmatch(r"[A-Za-z0-9+/=_-]{20,}", value) or sum(c.isdigit() for c in value) < 4:
        return False
    return not re.search(r"[a-z]{8}|[A-Z]{8}|0x", value) and _bits(value) >= 3.3


def _bits(value: str) -> float:
    """Entropy of a character."""
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())


def _token(body: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{body})")


_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "private key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?!-----(?:BEGIN|END) )[\s\S]){0,20000}"
            r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
        ),
    ),
    (
        "address with a password",
        re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{0,30}://(?P<secret>[^\s/@:'\"<>]{0,200}:[^\s/@'\"<>]{1,400})(?=@)"),
    ),
    (
        "address with a token",
        re.compile(r"\b[a-z]+://(?P<secret>(?:gh[a-z]_|glpat-|x-access-token|oauth2)[^\s/@'\"<>]{0,400})(?=@)"),
    ),
    (
        "parameter of an address",
        re.compile(
            r"[?&](?:access_token|api_?key|auth|key|password|secret|sig|signature|token|X-Amz-Signature)="
            r"(?P<secret>[^\s&#'\"<>]{8,})",
            re.IGNORECASE,
        ),
    ),
    (
        "authorization header",
        re.compile(r"\b(?:Bearer|Basic|Token)\s+(?P<secret>[A-Za-z0-9._~+/=-]{16,})"),
    ),
    (
        "key header",
        re.compile(r"\bx-api-key['\"]?\s*[:,]\s*['\"]?(?P<secret>[^\s'\"]{8,})", re.IGNORECASE),
    ),
    (
        "web token",
        _token(r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    ),
    (
        "token",
        _token(
            r"(?:AKIA|ASIA|AIDA|AROA)[0-9A-Z]{16}"
            r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|gl(?:pat|dt|rt|cbt)-[A-Za-z0-9_-]{20,}"
            r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}"
            r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{20,}|nvapi-[A-Za-z0-9_-]{20,}"
            r"|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}"
            r"|AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}"
            r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|do[opr]_v1_[a-f0-9]{32,}|dapi[a-f0-9]{32}"
            r"|AGE-SECRET-KEY-1[0-9A-Z]{40,}|hvs\.[A-Za-z0-9_-]{20,}|shp(?:at|ss|ca)_[a-fA-F0-9]{32}"
        ),
    ),
)

# name = "value", "name": "value", ("NAME", "value"), NAME=value, --name value; the value stands on the same line
_ASSIGNED = re.compile(
    r"(?:--(?P<option>[A-Za-z][A-Za-z0-9_-]{0,80})[ \t]{1,20}"
    r"|(?P<name>[A-Za-z][A-Za-z0-9_.-]{0,80})(?:['\"]?\]?[ \t]{0,20}(?::=|=>|[:=])|(?P<comma>['\"][ \t]{0,20},))[ \t]{0,20})"
    r"(?:[A-Za-z]{0,2}(?P<q>['\"])(?P<quoted>(?:(?!(?P=q))[^\n\\]|\\[^\n]){1,400})(?P=q)"
    r"|(?P<bare>[A-Za-z0-9_./+=~!@#$%^&*-]{4,400})(?=[\s'\";,]|$))"
)

# name("value"), name{"value"}
_STARTED = re.compile(
    r"(?P<option>(?!))?(?P<comma>(?!))?(?P<bare>(?!))?(?<![A-Za-z0-9_])(?P<name>[A-Za-z][A-Za-z0-9_]{0,80})[ \t]{0,4}[({][ \t]{0,20}"
    r"[A-Za-z]{0,2}(?P<q>['\"])(?P<quoted>(?:(?!(?P=q))[^\n\\]|\\[^\n]){1,400})(?P=q)"
)
