"""The user's settings: one frozen value, read from whatever the client sends, with every mistake named.

Defaults come from `initializationOptions`; over them go, key by key, the answer to `workspace/configuration` (section
`stitchcuda`) or, from clients that cannot be asked, the settings inside `workspace/didChangeConfiguration`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

SECTION = "stitchcuda"
_CLIENTS_OWN = {"server", "trace", "trusted", "commands", "status"}  # of the extension, not ours to read here
SEVERITIES = ("error", "warning", "information", "hint", "off")
TRIGGERS = ("edit", "save")
INLAY_HINTS = ("off", "brief", "all")
PROPOSERS = ("rules", "llm", "both")
# The words of `analysis.findings.finding.Confidence`; importing the rules here would slow the start of the server by a tenth.
CONFIDENCES = ("possible", "likely", "certain")


@dataclass(frozen=True)
class Settings:
    """Names and defaults are those of the client's settings."""

    diagnosticsDelay: int = 200  # milliseconds after the last keystroke
    diagnosticsTrigger: str = "edit"  # or "save"
    confidence: str = "likely"  # findings less certain than this are not shown
    select: tuple[str, ...] = ()  # codes or groups; empty: the default selection; "all": every code
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, str] = field(default_factory=dict)  # code -> one of SEVERITIES
    codeLens: bool = True
    hover: bool = True
    inlayHints: str = "brief"  # or "all", "off"
    wholeProgram: bool = True  # also read the other sources of the open file's program
    validateOnSave: bool = False  # build and run the program at each save; only in a trusted workspace
    confirmEdits: bool = False  # the client asks before it applies the edit of a stitched version
    proposer: str = "rules"  # who proposes changes of a program: the rules, a language model ("llm"), or "both"

    @property
    def delay(self) -> float:
        """Seconds."""
        return self.diagnosticsDelay / 1000


def lets_through(settings: Settings, code: str, group: str, confidence: str, default: bool) -> bool:
    """Whether a finding is shown. `default`: it is part of the default selection."""
    if settings.severity.get(code) == "off" or any(word in ("all", code, group) for word in settings.ignore):
        return False
    if CONFIDENCES.index(confidence) < CONFIDENCES.index(settings.confidence):
        return False
    if not settings.select:  # a severity turns on what is off by default
        return default or code in settings.severity
    return any(word in ("all", code, group) for word in settings.select)


def read_settings(base: Settings, values: object) -> tuple[Settings, tuple[str, ...]]:
    """`base` with the client's values put in, and one sentence a mistake. None (no settings) is fine."""
    if values is None:
        return base, ()
    if not isinstance(values, Mapping):
        return base, (f"settings must be an object, not {_kind(values)}",)
    inner = values.get(SECTION)
    if isinstance(inner, Mapping):
        values = inner
    changes: dict[str, Any] = {}
    mistakes: list[str] = []
    for key, value in values.items():
        if key in _CLIENTS_OWN:
            continue
        reader = _READERS.get(key)
        if reader is None:
            mistakes.append(f"unknown setting '{key}'")
            continue
        if value is None:
            continue
        try:
            changes[key] = reader(value)
        except ValueError as error:
            mistakes.append(f"'{key}' must be {error}, not {_shown(value)}")
    return replace(base, **changes), tuple(mistakes)


def _milliseconds(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 60_000:
        raise ValueError("a number of milliseconds from 0 to 60000")
    return int(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")  # noqa: TRY004 - a wrong value of a setting, whatever is wrong with it
    return value


def _one_of(options: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in options:
            raise ValueError("one of " + ", ".join(options))
        return value

    return read


def _codes(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise ValueError("a list of codes")
    return tuple(value)


def _severities(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError("an object from code to severity")  # noqa: TRY004
    if any(level not in SEVERITIES for level in value.values()):
        raise ValueError("an object from code to one of " + ", ".join(SEVERITIES))
    return {str(code): str(level) for code, level in value.items()}


_READERS: dict[str, Callable[[object], Any]] = {
    "diagnosticsDelay": _milliseconds,
    "diagnosticsTrigger": _one_of(TRIGGERS),
    "confidence": _one_of(CONFIDENCES),
    "select": _codes,
    "ignore": _codes,
    "severity": _severities,
    "codeLens": _flag,
    "hover": _flag,
    "inlayHints": _one_of(INLAY_HINTS),
    "wholeProgram": _flag,
    "validateOnSave": _flag,
    "confirmEdits": _flag,
    "proposer": _one_of(PROPOSERS),
}


def _kind(value: object) -> str:
    return {str: "text", bool: "a flag", int: "a number", float: "a number", list: "a list"}.get(type(value), "that")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
