"""Reads what `stitchcuda.toml`, or `[tool.stitchcuda]` of a pyproject.toml, says (docs/stitchcuda-toml.md).

Every mistake is named with its key, what was expected and what was found; the rest of the file still counts.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from stitchcuda.analysis.contract.project import (
    BuildSection,
    CheckSection,
    ContractSection,
    LlmSection,
    ObserveSection,
    Project,
    RunSection,
)

BUFFERS = ("host", "none")
SEVERITIES = ("error", "warning", "hint", "off")
LONGEST_RUN = 24 * 3600.0  # seconds


@dataclass(frozen=True, slots=True)
class ProjectProblem:
    """`key` is the place in the file ("run.timeout"), "" for the whole file; `what` is a sentence about it."""

    key: str
    what: str

    def __str__(self) -> str:
        return f"{self.key}: {self.what}" if self.key else self.what


def parse_project(text: str, *, pyproject: bool = False) -> tuple[Project, tuple[ProjectProblem, ...]]:
    """Never raises. A key with a problem has its default."""
    try:
        table: Any = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # beside TOMLDecodeError: integers of thousands of digits
        return Project(), (ProjectProblem("", f"not valid TOML: {error}"),)
    if pyproject:
        tool = table.get("tool", {})
        table = tool.get("stitchcuda", {}) if isinstance(tool, Mapping) else {}
        if not isinstance(table, Mapping):
            return Project(), (ProjectProblem("tool.stitchcuda", f"expected a table, found {_shown(table)}"),)
    problems: list[ProjectProblem] = []
    sections: dict[str, Any] = {}
    for name, content in table.items():
        if name not in _SECTIONS:
            problems.append(ProjectProblem(name, f"unknown; the sections are {', '.join(_SECTIONS)}"))
        elif not isinstance(content, Mapping):
            problems.append(ProjectProblem(name, f"expected a table, found {_shown(content)}"))
        else:
            sections[name] = _section(name, content, problems)
    return Project(**sections), tuple(problems)


def _section(name: str, content: Mapping[str, Any], problems: list[ProjectProblem]) -> Any:
    kind, readers = _SECTIONS[name]
    values = {}
    for key, value in content.items():
        reader = readers.get(key)
        if reader is None:
            problems.append(ProjectProblem(f"{name}.{key}", f"unknown; the keys are {', '.join(readers)}"))
            continue
        try:
            values[key] = reader(value)
        except _WrongEntry as error:
            problems.append(ProjectProblem(f"{name}.{key}", f"expected {error}, found {_shown(error.found)}"))
        except ValueError as error:
            problems.append(ProjectProblem(f"{name}.{key}", f"expected {error}, found {_shown(value)}"))
    return kind(**values)


class _WrongEntry(ValueError):
    """One entry of a table is wrong; says what was expected there. `found` is its value."""

    def __init__(self, expected: str, found: object) -> None:
        super().__init__(expected)
        self.found = found


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("text")  # noqa: TRY004 - a wrong value, whatever is wrong with it
    return value


def _folder(value: object) -> str:
    """A folder inside the program."""
    parts = re.split(r"[/\\]", _text(value))
    if not _text(value) or _text(value).startswith(("/", "~", "\\")) or ".." in parts or ":" in parts[0]:
        raise ValueError("a folder inside the program")
    return _text(value)


def _command(value: object) -> str:
    try:
        shlex.split(_text(value))
    except ValueError:
        raise ValueError("a command whose quotes are closed") from None
    return _text(value)


def _globs(value: object) -> tuple[str, ...]:
    for text in _texts(value):
        parts = re.split(r"[/\\]", text)
        if not text or text.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "**" in parts[-1]:
            raise ValueError(
                'patterns of files below the folder that the program runs in, such as "out/*.bin" or "**/*"'
            )
    return _texts(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")  # noqa: TRY004
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_RUN:
        raise ValueError(f"seconds, above 0 and at most {LONGEST_RUN:.0f}")
    return float(value)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ValueError("a list of texts")
    return tuple(value)


def _sizes(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(
        isinstance(v, str) and v or isinstance(v, int) and not isinstance(v, bool) for v in value
    ):
        raise ValueError("a list of sizes")
    return tuple(str(v) for v in value)


def _seeds(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        raise ValueError("a list of whole numbers")
    return tuple(value)


def _environment(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError("a table of texts by variable")  # noqa: TRY004
    for variable, text in value.items():
        if not isinstance(text, str):
            raise _WrongEntry(f"text for {variable}", text)
    return dict(value)


def _expressions(value: object) -> tuple[str, ...]:
    for text in _texts(value):
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"regular expressions ({error})") from None
    return _texts(value)


def _severities(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError(f"a table from code to one of {', '.join(SEVERITIES)}")  # noqa: TRY004
    for code, severity in value.items():
        if severity not in SEVERITIES:
            raise _WrongEntry(f"one of {', '.join(SEVERITIES)} for {code}", severity)
    return dict(value)


def _excluded(value: object) -> tuple[str, ...]:
    for text in _texts(value):
        parts = re.split(r"[/\\]", text)
        if not text.strip("/") or text.startswith(("/", "\\", "~")) or ".." in parts or ":" in parts[0]:
            raise ValueError(
                'patterns of files below the folder of this file, such as "third_party/" or "**/*_generated.cu"'
            )
    return _texts(value)


def _never_sent(value: object) -> tuple[str, ...]:
    for text in _texts(value):
        parts = re.split(r"[/\\]", text)
        if not text.strip("/") or text.startswith(("/", "\\", "~")) or ".." in parts or ":" in parts[0]:
            raise ValueError('patterns of files below the folder of this file, such as "secrets/" or "**/*_key.h"')
    return _texts(value)


@dataclass(frozen=True, slots=True)
class _OneOf:
    """Reads one of some words."""

    words: tuple[str, ...]

    def __call__(self, value: object) -> str:
        if value not in self.words:
            raise ValueError(f"one of {', '.join(self.words)}")
        return str(value)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**12:
        raise ValueError("a whole number above 0")
    return value


def _amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ValueError("an amount above 0")
    return float(value)


_Reader = Callable[[object], Any]
_SECTIONS: Mapping[str, tuple[Callable[..., Any], Mapping[str, _Reader]]] = {
    "build": (BuildSection, {"command": _text, "directory": _folder, "incremental": _flag}),
    "run": (
        RunSection,
        {
            "command": _command,
            "directory": _folder,
            "timeout": _seconds,
            "env": _environment,
            "sizes": _sizes,
            "seeds": _seeds,
        },
    ),
    "observe": (
        ObserveSection,
        {"stdout": _flag, "files": _globs, "ignore": _expressions, "buffers": _OneOf(BUFFERS)},
    ),
    "contract": (ContractSection, {"intent": _text, "scope": _texts}),
    "llm": (
        LlmSection,
        {
            "base_url": _text,
            "model": _text,
            "api": _OneOf(("auto", "chat", "responses")),
            "reasoning": _OneOf(("none", "minimal", "low", "medium", "high", "xhigh")),
            "stream": _flag,
            "timeout": _seconds,
            "never_send": _never_sent,
            "input_price": _amount,
            "output_price": _amount,
            "cached_price": _amount,
            "rounds": _count,
            "tokens": _count,
            "money": _amount,
            "seconds": _seconds,
            "gpu_seconds": _seconds,
        },
    ),
    "check": (
        CheckSection,
        {"severity": _severities, "select": _texts, "ignore": _texts, "exclude": _excluded},
    ),
}
assert set(_SECTIONS) == {f.name for f in fields(Project)}
KEYS: Mapping[str, tuple[str, ...]] = {name: tuple(readers) for name, (_, readers) in _SECTIONS.items()}


def choices(section: str, key: str) -> tuple[str, ...]:
    """The values that a key takes, as TOML; empty when they are not just a few, or there is no such key."""
    reader = _SECTIONS[section][1].get(key) if section in _SECTIONS else None
    if isinstance(reader, _OneOf):
        return tuple(f'"{word}"' for word in reader.words)
    return ("true", "false") if reader is _flag else ()
