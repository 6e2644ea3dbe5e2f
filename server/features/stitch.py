"""*Stitch end-to-end*: the loop runs as a job in a child process, and its result becomes one workspace edit.

The edit is sent only while every file that it touches still holds the text that the run read. Otherwise nothing is changed:
the result stays in the run's folder, and the user is told the command that applies it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from stitchcuda.agent import journal, versions
from stitchcuda.agent.journal import JournalError, Record
from stitchcuda.agent.versions import UnitError
from stitchcuda.server import child_command
from stitchcuda.server.convert import Annotated, Note, to_annotated_edit
from stitchcuda.server.features import program_jobs
from stitchcuda.server.jobs import Job
from stitchcuda.server.progress import Progress

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

TITLE = "Stitch end-to-end"
_MARK = b"\xef\xbb\xbf"
_ECHO_SECONDS = 2.0  # for the client to report the text it has after the edit


async def stitch(ls: StitchServer, *arguments: Any) -> dict[str, str]:
    """`[uri, intent = ""]` -> `{"job": id}`, at once. What comes of it is shown by progress, an edit and a message."""
    uri, intent = (*arguments, *("", "")[len(arguments) :])[:2]
    if not isinstance(intent, str):
        raise JsonRpcInvalidParams(message="stitchcuda.stitch takes a URI and the intent as text")
    document = program_jobs.document_of(ls, "stitchcuda.stitch", uri)
    program = program_jobs.program_of(document.path, ls.roots)
    if dirty := program_jobs.unsaved(ls, program):
        raise program_jobs.refuse(f"save {dirty} first: stitching reads the files as they are saved")
    words = ["stitch", str(program), *(["--intent", intent] if intent else [])]
    if not ls.trusted:
        words.append("--no-run")
    job = ls.jobs.start(f"{TITLE}: {program.name}", lambda job: _work(ls, job, program, words))
    return {"job": job.id}


async def _work(ls: StitchServer, job: Job, program: Path, words: Sequence[str]) -> dict[str, Any]:
    async with Progress(ls, job) as progress:
        answer = await child_command.run(job, words, progress.report, ls.child_command)
    if answer.value is None:
        program_jobs.show(ls, f"stitchcuda: {program.name}: {answer.message}", t.MessageType.Error)
        return {"outcome": "failed", "reason": answer.message}
    value = answer.value
    outcome, reason, run_dir = (str(value.get(k, "")) for k in ("outcome", "reason", "run_dir"))
    told = {"outcome": outcome, "reason": reason, "run_dir": run_dir, "applied": False}
    if not value.get("units"):
        kind = t.MessageType.Error if outcome == "failed" else t.MessageType.Info
        program_jobs.show(ls, f"stitchcuda: {program.name}: {outcome.replace('_', ' ')}: {reason}", kind)
        return told
    try:
        record = await asyncio.to_thread(journal.read, Path(run_dir))
        base = await asyncio.to_thread(journal.base_texts, record)
        applied, why = await _apply(ls, record, base, program, outcome, reason)
    except (JournalError, UnitError) as error:
        applied, why = False, str(error)
    told["applied"] = applied
    if applied:
        program_jobs.show(ls, f"stitchcuda: {program.name}: {outcome.replace('_', ' ')}: {reason}")
    else:
        name = Path(run_dir).name
        text = (
            f"stitchcuda: {program.name}: not applied: {why}. Nothing is lost: stitchcuda runs apply {name} applies it"
        )
        program_jobs.show(ls, text, t.MessageType.Warning)
    return told


async def _apply(
    ls: StitchServer, record: Record, base: dict[str, bytes], program: Path, outcome: str, reason: str
) -> tuple[bool, str]:
    """Sends the edit. Whether it is in the texts now, and else why not."""
    folder = program if program.is_dir() else program.parent
    changes = versions.changes(base, record.units, record.best)
    for path, text in base.items():
        current = ls.documents.snapshot(str(folder / path))
        if any(c.edit.path == path for c in changes) and (
            current is None or current.encoded != text.removeprefix(_MARK)
        ):
            return False, f"{path} has changed since the run read it"
    units = {unit.id: unit for unit in record.units}
    edits, notes = [], {}
    for change in changes:
        edit, shift = change.edit, len(_MARK) if base.get(change.edit.path, b"").startswith(_MARK) else 0
        name = " ".join(change.units)
        transforms = dict.fromkeys(units[u].transform for u in change.units)
        # Clients group by the note: one for each unit, so that a reviewer can take them one by one.
        label = f"{', '.join(transforms)} ({outcome.replace('_', ' ')})"
        notes[name] = Note(label, "; ".join(dict.fromkeys(units[u].why for u in change.units)))
        text_ = edit.text.decode(errors="replace")
        edits.append(Annotated(str(folder / edit.path), edit.start - shift, edit.end - shift, text_, name))
    edit_ = to_annotated_edit(
        edits, notes, ls.documents.snapshot, ls.documents.encoding, ls.client_capabilities, ls.settings.confirmEdits
    )
    if edit_ is None:
        return False, "a file cannot be read any more"
    label = f"{TITLE}: {outcome.replace('_', ' ')}"
    try:
        answer = await ls.workspace_apply_edit_async(t.ApplyWorkspaceEditParams(edit=edit_, label=label))
    except JsonRpcException as error:
        return False, f"the editor refused the edit ({error.message})"
    if not answer.applied:
        return False, answer.failure_reason or "the editor did not apply the edit"
    wanted = versions.compose(base, record.units, record.best)
    expected = {str(folder / path): text.removeprefix(_MARK) for path, text in wanted.items()}
    return await _echoed(ls, expected)


async def _echoed(ls: StitchServer, expected: dict[str, bytes]) -> tuple[bool, str]:
    """Clients say that they applied an edit which they dropped: what counts is the text that they report for open files."""
    for _ in range(int(_ECHO_SECONDS / 0.05)):
        opened = {path: ls.documents.at(path) for path in expected}
        wrong = [path for path, doc in opened.items() if doc is not None and doc.encoded != expected[path]]
        if not wrong:
            return True, ""
        await asyncio.sleep(0.05)
    return False, f"{Path(wrong[0]).name} does not hold the edited text after the edit"
