"""What was asked and answered in a run, as JSON lines in the run's folder: secrets are removed before (guarded.py). From it the run is
replayed without a network, bit for bit; a request that differs from the recorded one is an error, never another answer.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stitchcuda.agent.model import messages
from stitchcuda.agent.model.accounting import Ledger, Spent
from stitchcuda.agent.model.messages import Ask, BudgetSpent, Finish, ModelError, Reply, ToolCall, Usage
from stitchcuda.agent.model.wire import plain

SCHEMA = 1
NAME = "model.jsonl"
_SHOWN = 120  # characters of two texts that differ


class TranscriptError(ModelError):
    """The transcript cannot be written or read."""


class ReplayDiffers(ModelError):
    """The request is not the one that was recorded, so its answer would be a guess."""


def ask_to_json(ask: Ask) -> dict[str, Any]:
    value: dict[str, Any] = plain(asdict(ask))
    return value


def digest_of(ask: Ask) -> str:
    """Names a request by all that it says."""
    content = json.dumps(ask_to_json(ask), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


class Transcript:
    """Appends to `model.jsonl` in a run's folder, after what another part of the run wrote there. One line a request, on the disk
    before its reply is used. Raises TranscriptError."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._number = len(recorded(folder))

    def answered(self, ask: Ask, outcome: Reply | ModelError, spent: Spent) -> None:
        """`spent` is what this request took, with all attempts. Raises TranscriptError."""
        self._number += 1
        line = {
            "schema": SCHEMA,
            "number": self._number,
            "digest": digest_of(ask),
            "ask": ask_to_json(ask),
            "spent": {
                "tokens": spent.tokens,
                "money": spent.money,
                "requests": spent.requests,
                "estimated": spent.estimated,
            },
        }
        if isinstance(outcome, Reply):
            line["reply"] = asdict(outcome)
        else:
            what = {"what": outcome.what} if isinstance(outcome, BudgetSpent) else {}
            line["error"] = {"kind": type(outcome).__name__, "text": str(outcome), **what}
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise TranscriptError(f"{self._path}: cannot be written ({error.strerror})") from None


def recorded(folder: Path) -> tuple[Mapping[str, Any], ...]:
    """The lines of a run's transcript; empty without one. A last line that a crash cut off is left out. Raises TranscriptError."""
    path = folder / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise TranscriptError(f"{path}: cannot be read ({error.strerror})") from None
    lines = []
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            value = json.loads(line)
            if value["schema"] != SCHEMA or value["number"] != number or ("reply" in value) == ("error" in value):
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise TranscriptError(f"{path}:{number}: no line of a transcript") from None
        lines.append(value)
    return tuple(lines)


class Replaying:
    """A Model that answers from a transcript, in its order, without a network. `ledger` takes over what the run spent. With `exact`
    a request that is worded otherwise than the recorded one is an error; else only one of another role is, and `differences`
    says how they differ. `roles` are those whose requests count here; None: all."""

    def __init__(
        self, folder: Path, ledger: Ledger | None = None, *, exact: bool = True, roles: Collection[str] | None = None
    ) -> None:
        self._folder, self._ledger = folder, ledger
        self._lines = tuple(line for line in recorded(folder) if roles is None or line["ask"]["role"] in roles)
        self._exact = exact
        self._next = 0
        self.differences: list[str] = []

    @property
    def left(self) -> int:
        """Recorded requests that were not asked."""
        return len(self._lines) - self._next

    def ask(self, ask: Ask) -> Reply:
        """Raises ReplayDiffers, TranscriptError, and the error that was recorded."""
        if not self.left:
            raise ReplayDiffers(
                f"{self._folder / NAME} holds {len(self._lines)} requests; now the {ask.role} asks another one"
            )
        line = self._lines[self._next]
        if line["digest"] != digest_of(ask):
            how = (
                f"{self._folder / NAME}:{line['number']}: the request of the {ask.role} is not the recorded one: "
                f"{difference(line['ask'], ask_to_json(ask))}"
            )
            if self._exact or line["ask"]["role"] != ask.role:
                raise ReplayDiffers(how)
            self.differences.append(how)
        self._next += 1
        try:
            if self._ledger is not None:
                self._ledger.add(Spent(**line["spent"]))
            if "reply" in line:
                return _reply(line["reply"])
            error = _error(line["error"])
        except (ValueError, KeyError, TypeError) as wrong:
            raise TranscriptError(f"{self._folder / NAME}:{line['number']}: cannot be read ({wrong})") from None
        raise error


def difference(recorded: Any, now: Any, at: str = "") -> str:
    """Where two JSON values first differ, and how."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in [*recorded, *(k for k in now if k not in recorded)]:
            if recorded.get(key) != now.get(key):
                return difference(recorded.get(key), now.get(key), f"{at}.{key}" if at else key)
    if isinstance(recorded, list) and isinstance(now, list):
        for k, (one, other) in enumerate(zip(recorded, now, strict=False)):
            if one != other:
                return difference(one, other, f"{at}[{k}]")
        return f"{at} has {len(recorded)} parts in the record and {len(now)} now"
    if isinstance(recorded, str) and isinstance(now, str):
        start = next((k for k, (a, b) in enumerate(zip(recorded, now, strict=False)) if a != b), None)
        start = min(len(recorded), len(now)) if start is None else start
        begin = max(0, start - _SHOWN // 4)
        return (
            f"{at}, from character {start}: recorded {recorded[begin : begin + _SHOWN]!r}, "
            f"now {now[begin : begin + _SHOWN]!r}"
        )
    return f"{at}: recorded {recorded!r}, now {now!r}"


def _reply(value: Mapping[str, Any]) -> Reply:
    calls = tuple(ToolCall(**call) for call in value["calls"])
    rest = {name: value[name] for name in ("text", "model", "seconds")}
    return Reply(calls=calls, usage=Usage(**value["usage"]), finish=Finish(value["finish"]), **rest)


def _error(value: Mapping[str, Any]) -> ModelError:
    if value["kind"] == BudgetSpent.__name__:
        return BudgetSpent(value["what"], value["text"])
    kind: Callable[[str], ModelError] = _KINDS.get(value["kind"], ModelError)
    return kind(value["text"])


_KINDS: Mapping[str, type[ModelError]] = {
    kind.__name__: kind
    for kind in (
        messages.NotApproved,
        messages.Unauthorized,
        messages.Unreachable,
        messages.EndpointFailed,
        messages.TimedOut,
    )
}
