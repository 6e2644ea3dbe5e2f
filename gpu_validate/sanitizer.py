"""compute-sanitizer: runs a program under one of its tools and reads its XML reports.

A report is known by its tool, kind, text without numbers, kernel and source text: lines move with an edit, and addresses and
thread numbers change with every run. The program could write the report file itself, so that the tool's own exit code must
agree with what is in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from stitchcuda.gpu_validate.processes import Ended

TOOLS = ("memcheck", "initcheck", "racecheck", "synccheck")
INSIDE_KERNELS = ("racecheck", "synccheck")  # these look at nothing but kernels
OPTIONS = {"memcheck": ("--leak-check", "full", "--track-stream-ordered-races", "all")}
FOUND = 97  # the exit code that says: reports were made
MOST = 5000  # reports of a run: a report a thread, as a rule
FRAMES = "16"  # of a host stack
ROOT = "ComputeSanitizerOutput"
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\b[\d,]+ bytes? (?:before|after)\b")
_LAUNCH = re.compile(r"<<<.*?>>>")
_STUB = (
    "__device_stub__"  # the host function behind a kernel launch; the next frame bears the kernel's own name and line
)
_TOOL_ERROR = re.compile(
    r"^=+ *((?:Error|Internal|Device not|Target application|No attachable|Unable|Failed).*)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Place:
    """One frame of a report; `path` as the tool gives it, `line` 0 when unknown."""

    function: str
    path: str
    line: int
    on_device: bool


@dataclass(frozen=True, slots=True)
class Report:
    tool: str
    kind: str
    text: str
    places: tuple[Place, ...]  # what happened where: device frames first, innermost first
    level: str = "error"  # "error" | "warning" | "info"

    @property
    def kernel(self) -> str:
        return next((p.function for p in self.places if p.on_device and p.function), "")


class Unreadable(Exception):
    """The report file is not what compute-sanitizer writes."""


@dataclass(frozen=True)
class Checked:
    """`problem`: why nothing can be concluded, as the end of a sentence that begins with the tool's name."""

    reports: tuple[Report, ...] = ()
    seconds: float = 0.0
    problem: str = ""
    cut: bool = False  # there were more reports than are kept


def check(
    sanitizer: Path,
    tool: str,
    command: Sequence[str],
    file: Path,
    run: Callable[[Sequence[str]], Ended],
    only: Sequence[str] = (),
) -> Checked:
    """Runs `command` under a tool with `run`; `file` is where the tool writes, `only` are options that choose launches."""
    file.unlink(missing_ok=True)
    options = OPTIONS.get(tool, ())
    ended = run(
        [
            str(sanitizer), "--tool", tool, *options, *only, "--check-exit-code", "no", "--error-exitcode", str(FOUND),
            "--print-limit", str(MOST), "--num-callers-host", FRAMES, "--strip-paths", "no", "--xml", "--save", str(file), *command,
        ]
    )  # fmt: skip
    if ended.stopped or ended.not_started or ended.stuck or ended.signal is not None:
        return Checked((), ended.seconds, ended.describe())
    try:
        reports = read_reports(file.read_bytes(), tool)
    except FileNotFoundError:
        return Checked((), ended.seconds, _complaint(ended) or f"wrote no report and {ended.describe()}")
    except (OSError, Unreadable) as error:
        return Checked((), ended.seconds, f"wrote a report that cannot be read ({error})")
    told, written = ended.code == FOUND, {r.level for r in reports}
    if (told and not written & {"error", "warning"}) or ("error" in written and not told):
        complaint = _complaint(ended) or f"{ended.describe()} and reported {len(reports)} times: they do not agree"
        return Checked(reports, ended.seconds, complaint)
    return Checked(reports, ended.seconds, "" if reports else _complaint(ended), len(reports) >= MOST)


def _complaint(ended: Ended) -> str:
    """What the tool itself could not do."""
    found = _TOOL_ERROR.search((ended.stdout + ended.stderr).decode("utf-8", "replace"))
    return f"said: {found[1].strip()[:200]}" if found else ""


def read_reports(data: bytes, tool: str) -> tuple[Report, ...]:
    """Raises Unreadable. Documents that declare entities are refused: the tool writes none."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise Unreadable("it declares a document type")
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise Unreadable(str(error)) from error
    if root.tag != ROOT:
        raise Unreadable(f"it begins with {root.tag}")
    return tuple(_report(record, tool) for record in root.iter("record"))


def _report(record: ElementTree.Element, tool: str) -> Report:
    level = (record.findtext("level") or "error").strip().lower()
    kind = (record.findtext("kind") or "").strip()
    places: list[Place] = []
    for child in record:
        if child.tag in ("where", "deviceStack", "frame"):
            places += _places(child, True)
    for child in record:
        if child.tag not in ("where", "deviceStack", "frame"):
            places += _places(child, "device" in child.tag.lower())
    return Report(tool, kind, _text(record), tuple(dict.fromkeys(places)), level)


def _places(element: ElementTree.Element, on_device: bool) -> list[Place]:
    found = []
    for part in element.iter():
        if part.find("func") is not None or part.find("path") is not None:
            line = (part.findtext("line") or "").strip()
            device = on_device or part.tag == "where"
            found.append(
                Place(
                    (part.findtext("func") or "").strip(),
                    (part.findtext("path") or "").strip(),
                    int(line) if line.isdigit() else 0,
                    device,
                )
            )
    return found


def _text(record: ElementTree.Element) -> str:
    what = record.find("what")
    if what is None:
        return (record.findtext("kind") or "").strip()
    parts = [
        what.findtext("text"),
        what.findtext("type"),
        *(e.text for side in ("source", "destination") for e in what.iterfind(f"{side}/direction")),
    ]
    named = [part.strip() for part in parts if part and part.strip()]
    return ", ".join(named) or (record.findtext("kind") or "").strip()


def host_frames(report: Report) -> list[Place]:
    """The host's frames without those that the compiler makes for a launch."""
    frames = [p for p in report.places if not p.on_device]
    made = {n for n, p in enumerate(frames) if p.function.startswith(_STUB)}
    return [p for n, p in enumerate(frames) if n not in made and n - 1 not in made]


def identity(report: Report, source: Callable[[str, int], str]) -> tuple[str, ...]:
    """What makes two reports the same; `source` gives the text of a line of the program, "" for other files. What stands
    between <<< and >>> is not compared: a launch that went to another stream is the same launch."""
    device = [(p.function, source(p.path, p.line)) for p in report.places if p.on_device]
    lines = ((p.function, source(p.path, p.line)) for p in host_frames(report))
    host = next(((function, _LAUNCH.sub("<<<>>>", text)) for function, text in lines if text), ("", ""))
    parts = [text for pair in (*device, host) for text in pair]
    return (report.tool, report.kind, _VARYING.sub("#", report.text), *parts)
