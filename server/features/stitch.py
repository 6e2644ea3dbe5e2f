"""*Stitch end-to-end*: the loop runs as a job in a child process, and its result becomes one workspace edit.

The edit is sent only while every file that it touches still holds the text that the run read. Otherwise nothing is changed:
the result stays in the run's folder, and the user is told the command that applies it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from stitchcuda.server import child_command
from stitchcuda.server.convert import to_annotated_edit
from stitchcuda.server.features import kept_change, program_jobs
from stitchcuda.server.features.consent import Consent, obtain
from stitchcuda.server.jobs import Job
from stitchcuda.server.progress import Progress

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer
    from stitchcuda.server.run_edits import RunEdits

TITLE = "Stitch end-to-end"
KEY_VARIABLE = "STITCHCUDA_LLM_KEY"  # as agent/model/endpoint.py has it, which the server does not need
_ECHO_SECONDS = 2.0  # for the client to report the text it has after the edit


async def stitch(ls: StitchServer, *arguments: Any) -> dict[str, str]:
    """`[uri, intent = "", key = ""]` -> `{"job": id}`, at once. What comes of it is shown by progress, an edit and a message. The
    key is the model's; it goes into the environment of this one run."""
    uri, intent, key = (*arguments, *("", "", "")[len(arguments) :])[:3]
    if not isinstance(intent, str) or not isinstance(key, str):
        raise JsonRpcInvalidParams(message="stitchcuda.stitch takes a URI, the intent and a key as text")
    reading = "stitching reads the files as they are saved"
    program = program_jobs.saved_program(ls, "stitchcuda.stitch", uri, reading)
    words = program_jobs.stitch_words(ls, program, *([f"--intent={intent}"] if intent else []))
    # Nothing of a folder that is not trusted is sent or asked.
    proposer = ls.settings.proposer if ls.trusted else "rules"
    secrets = {KEY_VARIABLE: key} if key and proposer != "rules" else {}
    return program_jobs.start(
        ls, f"{TITLE}: {program.name}", program, lambda job: _work(ls, job, program, words, proposer, secrets)
    )


async def _run(
    ls: StitchServer, job: Job, program: Path, words: list[str], proposer: str, secrets: Mapping[str, str]
) -> tuple[child_command.Answer | None, str]:
    """The command's answer, and why no model was asked although one was to be; no answer when there is nothing to run without it."""
    async with Progress(ls, job) as progress:
        if proposer == "rules":
            return await program_jobs.run_in_turn(ls, job, progress, words), ""
        with_model = [*words, f"--proposer={proposer}"]
        consent = await obtain(ls, job, progress, program, with_model, secrets)
        if consent.failed:
            return child_command.Answer(2, None, consent.failed), ""
        if not consent.missing and ls.settings.proposer == "rules":
            consent = Consent("the setting `proposer` says so by now")
        if not consent.missing:
            return await program_jobs.run_in_turn(ls, job, progress, with_model, secrets), ""
        if proposer == "llm":
            return None, consent.missing
        # A command that the user does not want executed is not executed for the rules either.
        alone = [*words, "--no-run"] if consent.executes else words
        return await program_jobs.run_in_turn(ls, job, progress, alone), consent.missing


async def _work(
    ls: StitchServer, job: Job, program: Path, words: list[str], proposer: str, secrets: Mapping[str, str]
) -> dict[str, Any]:
    answer, unasked = await _run(ls, job, program, words, proposer, secrets)
    if answer is None:
        reason = f"the model was not asked, and nothing was sent or run: {unasked}"
        program_jobs.show(ls, f"stitchcuda: {program.name}: {reason}", t.MessageType.Warning)
        return {"outcome": "declined", "reason": reason}
    if answer.value is None:
        program_jobs.show(ls, f"stitchcuda: {program.name}: {answer.message}", t.MessageType.Error)
        return {"outcome": "failed", "reason": answer.message}
    note = f". These are the rules alone; the model was not asked: {unasked}" if unasked else ""
    return {**await offer(ls, program, answer.value, TITLE, note), "not_asked": unasked}


async def offer(
    ls: StitchServer, program: Path, value: Mapping[str, Any], title: str, note: str = ""
) -> dict[str, Any]:
    """Sends the edit of a run whose result is `value`, and tells what came of it, with `note`. `title` names the edit."""
    outcome, reason, run_dir = (str(value.get(k, "")) for k in ("outcome", "reason", "run_dir"))
    told = {"outcome": outcome, "reason": reason, "run_dir": run_dir, "applied": False}
    note = f"{_errors(value)}{note}"
    if not value.get("units"):
        told["reason"] = reason = f"{reason}{_first_refusal(value)}"
        kind = t.MessageType.Error if outcome == "failed" else t.MessageType.Info
        text = f"stitchcuda: {program.name}: {outcome.replace('_', ' ')}: {reason}{note}"
        program_jobs.show(ls, text, kind, program_jobs.Ended(outcome))
        return told
    if outcome == "not_validated" and not ls.trusted:
        note = f"; {program_jobs.UNTRUSTED}{note}"
    folder = program if program.is_dir() else program.parent
    why_not = await _apply(ls, Path(run_dir), folder, outcome, title)
    told["applied"] = not why_not
    if why_not:
        # A version that was not validated is taken from the journal only when that is said.
        wanted = f"{Path(run_dir).name}{' --unvalidated' if outcome == 'not_validated' else ''}"
        text = f"not applied: {why_not}. Nothing is lost: stitchcuda runs apply {wanted} applies it{note}"
        kept_change.tell(ls, f"stitchcuda: {program.name}: {text}", await asyncio.to_thread(_patch, Path(run_dir)))
    else:
        text = f"stitchcuda: {program.name}: {outcome.replace('_', ' ')}: {reason}{note}"
        program_jobs.show(ls, text, ended=program_jobs.Ended(outcome, applied=True))
    return told


def _errors(value: Mapping[str, Any]) -> str:
    """What `check` reports of the program, which a stitched version has as well."""
    errors = value.get("errors") or ()
    if not errors:
        return ""
    first, more = errors[0], f" and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f". It has errors, before and after: {first['code']} at {Path(first['path']).name}:{first['line']}{more}"


def _first_refusal(value: Mapping[str, Any]) -> str:
    """What prevents the first change that was looked for, and how many others are prevented."""
    refused = value.get("refused") or ()
    if not refused:
        return ""
    first, more = refused[0], f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return f". {Path(first['path']).name}:{first['line']}: {first['transform']}: {first['reason']}{more}"


async def _apply(ls: StitchServer, run_dir: Path, folder: Path, outcome: str, title: str) -> str:
    """Sends the edit. Why it is not in the texts then, "" when it is."""
    if not get_capability(ls.client_capabilities, "workspace.apply_edit"):
        return "this editor takes no edits from a language server"
    run = await asyncio.to_thread(_read, run_dir, folder, outcome)
    if isinstance(run, str):
        return run
    for path, text in run.before.items():
        current = ls.documents.snapshot(path)
        if current is None:
            return f"{Path(path).name} cannot be read any more"
        if current.encoded != text:
            return f"{Path(path).name} has changed since the run read it"
    edit = to_annotated_edit(
        run.edits,
        run.notes,
        ls.documents.snapshot,
        ls.documents.encoding,
        ls.client_capabilities,
        ls.settings_of(str(folder)).confirmEdits,
    )
    if edit is None:
        return "an edit begins or ends inside a character or a line end"
    label = f"{title}: {outcome.replace('_', ' ')}"
    try:
        answer = await ls.workspace_apply_edit_async(t.ApplyWorkspaceEditParams(edit=edit, label=label))
    except JsonRpcException as error:
        return f"the editor refused the edit ({error.message})"
    if not answer.applied:
        return answer.failure_reason or "the editor did not apply the edit"
    return await _echoed(ls, run)


def _read(run_dir: Path, folder: Path, outcome: str) -> RunEdits | str:
    """What the run changes, or why an editor cannot."""
    from stitchcuda.server import run_edits

    try:
        return run_edits.read(run_dir, folder, outcome)
    except run_edits.CannotEdit as error:
        return str(error)


def _patch(run_dir: Path) -> Path | None:
    """The change as a file in the run's folder, for readers and for `git apply`; None when it cannot be made."""
    from stitchcuda.server import run_edits

    return run_edits.write_patch(run_dir)


async def _echoed(ls: StitchServer, run: RunEdits) -> str:
    """Clients say that they applied an edit which they dropped: what counts is the text that they report for open files, and that of
    the disk for files which they do not report."""
    for _ in range(int(_ECHO_SECONDS / 0.05)):
        wrong = [path for path, text in run.after.items() if not _holds(ls, path, text)]
        if not wrong:
            return ""
        await asyncio.sleep(0.05)
    name = Path(wrong[0]).name
    if ls.documents.at(wrong[0]) is None:
        return f"{name} was neither opened nor written by the editor, as far as can be seen"
    return f"{name} does not hold the edited text after the edit"


def _holds(ls: StitchServer, path: str, text: bytes) -> bool:
    current = ls.documents.snapshot(path)
    return current is not None and current.encoded == text
