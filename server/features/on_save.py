"""On-save validation: the saved program is built and run, and what became slower or wrong on the GPU is shown on its line.

Off until the user switches `validateOnSave` on in a trusted workspace. These findings are always pushed, also to clients that pull
the others: they come minutes after any request. A finding holds for the text that was saved: it moves with edits elsewhere
in the file, and is withdrawn when an edit touches its line.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from stitchcuda.analysis.syntax.text import Document
from stitchcuda.server.convert import View, is_shown
from stitchcuda.server.engine.facts import FileFacts, Place, PlacedFinding
from stitchcuda.server.features import program_jobs
from stitchcuda.server.features.project_settings import settings_at
from stitchcuda.server.jobs import Job

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

SEVERITIES = {"latency-regression": "warning", "sanitizer": "error"}


@dataclass(frozen=True)
class _Time:
    """What was measured of a launch or copy on a line."""

    place: Place
    operation: str
    words: tuple[str, ...]


@dataclass
class OnSave:
    """The newest results by path, each with the revision of the text that it holds for, and the running job by program."""

    findings: dict[str, tuple[int, tuple[PlacedFinding, ...]]] = field(default_factory=dict)
    times: dict[str, tuple[int, tuple[_Time, ...]]] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)


def saved(ls: StitchServer, document: Document) -> None:
    """Starts a validation of the program that was saved, instead of one that still runs for it."""
    if not (ls.settings_of(document.path).validateOnSave and ls.trusted and ls.is_relevant(document)):
        return
    if not os.path.isabs(document.path):
        return  # what an editor shows from elsewhere than the disk
    program = program_jobs.program_of(ls, document)
    if program_jobs.unsaved(ls, program):
        return  # the other files are saved first or not at all; then this one is not what would run
    ls.jobs.cancel(ls.on_save.running.get(str(program), ""))
    revisions = {d.path: d.revision for d in ls.documents.all()}
    job = ls.jobs.start(f"Validate on save: {program.name}", lambda job: _work(ls, job, program, revisions))
    ls.on_save.running[str(program)] = job.id


async def _work(ls: StitchServer, job: Job, program: Path, revisions: Mapping[str, int]) -> dict[str, Any]:
    answer = await program_jobs.run(ls, job, ("gate", str(program), "--on-save"))
    value = answer.value
    if value is None:
        # A program that does not build is normal while it is being written: told, but not in a popup at every save.
        text = f"{program.name}: not validated: {answer.message}"
        ls.window_log_message(t.LogMessageParams(type=t.MessageType.Warning, message=text))
        return {"state": "untested", "reason": answer.message}
    arrived(ls, program, value.get("findings", ()), revisions)
    _timed(ls, program, value, revisions)
    return {"state": value.get("state"), "findings": len(value.get("findings", ()))}


def arrived(ls: StitchServer, program: Path, rows: Any, revisions: Mapping[str, int]) -> None:
    """Takes the findings of a run; those of files that were edited since they were saved are dropped: the next save tells."""
    folder = program if program.is_dir() else program.parent
    found: dict[str, list[PlacedFinding]] = {}
    for row in rows:
        path = str(folder / row["path"])
        document = ls.documents.at(path)
        if document is not None and document.revision == revisions.get(path):
            found.setdefault(path, []).append(_placed(document, row))
    for path in [p for p in ls.on_save.findings if p == str(program) or Path(p).is_relative_to(folder)]:
        del ls.on_save.findings[path]
    for path, findings in found.items():
        ls.on_save.findings[path] = (revisions[path], tuple(findings))
    for document in ls.documents.all():
        ls.publish_on_save(document)


def _timed(ls: StitchServer, program: Path, value: Mapping[str, Any], revisions: Mapping[str, int]) -> None:
    """Keeps what the run measured, and what the kernels that it built take, for hover."""
    import statistics  # needed after a run only: a part of the time in which the server starts

    sites, device, kernels = value.get("sites", ()), str(value.get("device", "")), value.get("kernels", ())
    folder = program if program.is_dir() else program.parent
    found: dict[str, list[_Time]] = {}
    for row in sites:
        path = str(folder / row["path"])
        document = ls.documents.at(path)
        if document is not None and document.revision == revisions.get(path):
            middle = statistics.median(row["nanoseconds"])
            time = f"{middle / 1e3:.1f} us" if middle < 1e6 else f"{middle / 1e6:.2f} ms"
            words = (f"measured: {time} on {device}, {row['count']} a run", *_takes(str(row["operation"]), kernels))
            found.setdefault(path, []).append(_Time(_line_of(document, row), str(row["operation"]), words))
    for path in [p for p in ls.on_save.times if p == str(program) or Path(p).is_relative_to(folder)]:
        del ls.on_save.times[path]
    for path, times in found.items():
        ls.on_save.times[path] = (revisions[path], tuple(times))


def measured(ls: StitchServer, document: Document, at: int, kernel: str) -> tuple[str, ...]:
    """What the last validation on save measured of the operation that begins at `at`: a launch of `kernel`, or a copy or fill. Nothing
    where the line was edited since."""
    known = ls.on_save.times.get(document.path)
    edits = ls.documents.since(document.uri, known[0]) if known is not None else None
    if known is None or edits is None:
        return ()
    view = View(document, FileFacts(document.path), edits, ls.documents.encoding, ls.documents.snapshot)
    here: list[str] = []
    for time in known[1]:
        span = view.span(time.place)
        if span is not None and span[0] <= at <= span[1] and _bare(time.operation) == _bare(kernel):
            here += time.words
    return tuple(here)


def _takes(operation: str, kernels: Any) -> tuple[str, ...]:
    """What the kernel of a launch takes, as it was built; nothing when it is not known which of several it was."""
    exact = [k for k in kernels if _without_parameters(k["name"]) == operation]
    found = exact or [
        k for k in kernels if _bare(operation) and _bare(_without_parameters(k["name"])) == _bare(operation)
    ]
    if len(found) != 1:
        return ()
    parts = [f"{found[0]['registers']} registers a thread"]
    if found[0]["shared"]:
        parts.append(f"{found[0]['shared']} bytes of static shared memory a block")
    if found[0]["spilled"]:
        parts.append(f"{found[0]['spilled']} bytes spilled")
    return (f"built: {', '.join(parts)}",)


def _without_parameters(name: str) -> str:
    """`scale<float>` of `void scale<float>(float*, int)`."""
    depth, cut = 0, len(name)
    for at, sign in enumerate(name):
        depth += (sign == "<") - (sign == ">")
        if sign == "(" and depth == 0 and not name.startswith("(anonymous namespace)", at):
            cut = at
            break
    return name[:cut].removeprefix("void ")


def _bare(operation: str) -> str:
    """A kernel's name alone; "" for a copy or fill."""
    name = operation.split("<")[0].rpartition("::")[2]
    return "" if " of " in name else name


def _line_of(document: Document, row: Any) -> Place:
    """The whole line of a row, without the indentation."""
    line = min(max(int(row["line"]) - 1, 0), len(document.lines) - 1)
    start, _ = document.line_span(line)
    text = document.line(line)
    first = start + len(text) - len(text.lstrip())
    return Place(document.path, first, max(start + len(text.rstrip()), first))


def _placed(document: Document, row: Any) -> PlacedFinding:
    place = _line_of(document, row)
    code = str(row["code"])
    return PlacedFinding(code, "gpu", SEVERITIES.get(code, "warning"), "certain", place, str(row["message"]))


def shown(ls: StitchServer, document: Document) -> list[tuple[PlacedFinding, t.Range, View]]:
    """What holds for the current text."""
    known = ls.on_save.findings.get(document.path)
    edits = ls.documents.since(document.uri, known[0]) if known is not None else None
    if known is None or edits is None:
        return []
    view = View(document, FileFacts(document.path), edits, ls.documents.encoding, ls.documents.snapshot)
    found = []
    settings = settings_at(ls, document.path)
    for finding in known[1]:
        here = view.range(finding.place)
        if here is not None and is_shown(finding, settings):
            found.append((finding, here, view))
    return found


def changed(ls: StitchServer, document: Document) -> None:
    """After an edit: what it touched is withdrawn within one debounce, the rest moves along."""
    if document.path in ls.on_save.findings:
        asyncio.get_running_loop().call_later(ls.settings_of(document.path).delay, _again, ls, document.uri)


def _again(ls: StitchServer, uri: str) -> None:
    document = ls.documents.get(uri)
    if document is not None:
        ls.publish_on_save(document)


def closed(ls: StitchServer, document: Document) -> None:
    ls.on_save.findings.pop(document.path, None)
    ls.on_save.times.pop(document.path, None)
