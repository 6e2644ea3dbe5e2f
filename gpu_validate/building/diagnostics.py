"""What compilers, linkers and build tools say, one diagnostic a line of interest, with paths as the user knows them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from stitchcuda.gpu_validate.building.model import Diagnostic

MOST = 20  # diagnostics kept of a failed build
LONGEST = 400  # characters of a message

_SEVERITY = {
    "error": "error",
    "fatal error": "error",
    "catastrophic error": "error",
    "fatal": "error",
    "warning": "warning",
}
_FORMS = (
    # cudafe++, cicc, MSVC: path(12): error #20: identifier "x" is undefined
    re.compile(r"(?P<path>[^\s()][^()]*)\((?P<line>\d+)(?:,\d+)?\)\s*:\s*(?P<kind>(?:fatal |catastrophic )?error|warning)\b(?P<text>.*)"),
    # gcc, clang: path:12:5: error: text
    re.compile(r"(?P<path>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)?\s*(?P<kind>(?:fatal )?error|warning):\s*(?P<text>.*)"),
    # ld: path:12: undefined reference to `f'
    re.compile(r"(?:\S*ld: )?(?:\S+\.o: in function .*?:\s*)?(?P<path>[^\s:][^:]*):(?P<line>\d+): (?P<text>undefined reference to .*)"),
    re.compile(r"\S*ld: (?:\S+: in function \S+: ?)?(?:\S+:\(\S+\): )?(?P<text>(?:undefined reference|cannot find|multiple definition).*)"),
    re.compile(r".*?(?P<text>undefined reference to .*)"),
    re.compile(r"CMake (?P<kind>Error|Warning)(?: \(dev\))? at (?P<path>[^:]+):(?P<line>\d+) \((?P<text>[^)]*)\):?"),
    re.compile(r"CMake (?P<kind>Error): (?P<text>.*)"),
    re.compile(r"(?P<path>[^\s:][^:]*):(?P<line>\d+): \*\*\* (?P<text>.*)"),  # make
    re.compile(r"(?:ptxas|nvlink|nvcc|fatbinary|cudafe\+\+|cicc)\s*(?:\S+, line \d+; )?\s*(?P<kind>fatal|error|warning)\s*: (?P<text>.*)"),
    re.compile(r"ninja: (?P<kind>error): (?P<text>.*)"),
    re.compile(r"make(?:\[\d+\])?: \*\*\* (?P<text>No rule .*)"),
    re.compile(r"(?:/bin/)?(?:ba|da)?sh: (?:line )?(?:\d+: )?(?P<text>.*not found)"),
    re.compile(r"make(?:\[\d+\])?: (?P<text>\S+: (?:No such file or directory|Command not found|Permission denied))"),
)  # fmt: skip
_PYTHON_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)')
_PYTHON_ERROR = re.compile(r"((?:Syntax|Indentation|Tab)Error: .*)")
# What the options that we append make the tools say.
_OURS = (
    "Resource usage is not shown",
    "'--device-debug (-G)' overrides",
    "Conflicting options --device-debug and --generate-line",
)
_NUMBER = re.compile(r"^\s*#(\d+)(?:-D)?:\s*|^\s*:\s*")


def read_diagnostics(output: str) -> list[Diagnostic]:
    """All diagnostics of a build's output, in order, paths as they stand in it."""
    found: list[Diagnostic] = []
    lines = output.splitlines()
    frame = ("", 0)  # Python names the place first and the error below it
    for number, line in enumerate(lines):
        if python := _PYTHON_FRAME.match(line):
            frame = (python[1], int(python[2]))
        elif (python := _PYTHON_ERROR.match(line)) and frame[0]:
            found.append(Diagnostic("error", python[1][:LONGEST], *frame))
            continue
        diagnostic = _read_line(line.strip())
        if diagnostic is None:
            continue
        if (
            diagnostic.message == ""
            or diagnostic.message.startswith(_OURS)
            or "(" in diagnostic.message
            and line.startswith("CMake")
        ):
            continue
        if line.startswith("CMake") and diagnostic.path:  # its text stands below, indented
            text = " ".join(x.strip() for x in lines[number + 1 : number + 4] if x.startswith("  "))
            diagnostic = replace(diagnostic, message=f"{diagnostic.message}: {text}"[:LONGEST])
        found.append(diagnostic)
    return found


def _read_line(line: str) -> Diagnostic | None:
    for form in _FORMS:
        match = form.match(line)
        if match is None:
            continue
        parts = match.groupdict()
        text = _NUMBER.sub("", parts.get("text") or "").strip()
        kind = _SEVERITY[(parts.get("kind") or "error").lower()]
        return Diagnostic(kind, text[:LONGEST], (parts.get("path") or "").strip(), int(parts.get("line") or 0))
    return None


def for_user(
    found: Iterable[Diagnostic], place: Path, folder: Path, shown: str, where: Sequence[str]
) -> list[Diagnostic]:
    """With paths of the copy at `place` as paths of the user's `folder`, which the user calls `shown`. Relative paths are
    looked up below `where` (folders relative to the copy's), which is where the commands ran."""
    return [
        replace(d, path=_user_path(d.path, place, folder, shown, where), message=_unplaced(d.message, place, shown))
        for d in found
    ]


def _user_path(path: str, place: Path, folder: Path, shown: str, where: Sequence[str]) -> str:
    if not path:
        return ""
    candidates = [Path(path)] if os.path.isabs(path) else [place / base / path for base in where]
    for candidate in candidates:
        absolute = Path(os.path.normpath(candidate))
        if absolute.is_relative_to(place):
            relative = absolute.relative_to(place)
            if absolute.exists() or os.path.isabs(path):
                return os.path.normpath(os.path.join(shown, relative))
    if os.path.isabs(path):
        relative_up = os.path.relpath(path, place)
        beside = Path(os.path.normpath(folder / relative_up))
        return str(beside) if beside.exists() else path
    return path


def _unplaced(message: str, place: Path, shown: str) -> str:
    return message.replace(f"{place}{os.sep}", "" if shown in ("", ".") else f"{shown}{os.sep}")


def errors(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The first errors, each once."""
    return tuple(dict.fromkeys(d for d in found if d.severity == "error"))[:MOST]


def warnings(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The warnings, each once: a header's warning comes with every file that includes it."""
    return tuple(dict.fromkeys(d for d in found if d.severity == "warning"))


def new_warnings(candidate: Iterable[Diagnostic], baseline: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Warnings of the candidate that the baseline lacks. Lines move with an edit, so that a warning is known by its file and
    text, and each of the baseline's answers for one."""
    known = Counter((d.path, d.message) for d in baseline)
    new = []
    for diagnostic in candidate:
        key = (diagnostic.path, diagnostic.message)
        if known[key] > 0:
            known[key] -= 1
        else:
            new.append(diagnostic)
    return new


_SPILL_OF = re.compile(r"ptxas info\s*: Function properties for (\S+)")
_SPILLS = re.compile(r"\s*\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def read_spills(output: str) -> dict[str, int]:
    """Spilled bytes (stores and loads) by mangled kernel name, as `--resource-usage` reports them. Lines of several
    compilers may be mixed: only a report that directly follows its kernel's name is taken."""
    spills: dict[str, int] = {}
    name = ""
    for line in output.splitlines():
        if named := _SPILL_OF.match(line):
            name = named[1]
        elif (reported := _SPILLS.match(line)) and name:
            spills[name] = int(reported[1]) + int(reported[2])
            name = ""
        else:
            name = ""
    return spills
