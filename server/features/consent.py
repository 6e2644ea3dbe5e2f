"""What the user has to agree to before a model is asked (agent/model/approvals.py), put to them by the editor, one question after the
other.

Only the button that says so is a yes; it is kept where the command line keeps its own, for exactly what was shown, and so is not
asked again. Nothing is sent or executed before, and what the run finds then is compared with what was agreed to once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.exceptions import JsonRpcException
from stitchcuda.server import child_command
from stitchcuda.server.jobs import Job
from stitchcuda.server.progress import Progress

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

ALLOW, NOT_NOW = "Allow for This Program", "Not Now"
ANSWER_SECONDS = 600.0  # then no answer is a no
_LONGEST = 950  # characters of a question: editors cut what is longer
_LEFT_OUT_SHOWN = 3


@dataclass(frozen=True)
class Consent:
    """`missing` says what was not agreed to, "" when all was; `executes` whether that is about a command that would be executed.
    `failed`: it could not be found out what to ask."""

    missing: str = ""
    executes: bool = False
    failed: str = ""


async def obtain(
    ls: StitchServer, job: Job, progress: Progress, program: Path, words: Sequence[str], secrets: Mapping[str, str]
) -> Consent:
    """Asks what is still open for the command `words`, which asks a model, until something is denied."""
    progress.report(0, "what a model would be sent")
    found = await child_command.run(job, [*words, "--questions"], progress.report, ls.child_command, secrets)
    if found.value is None:
        return Consent(failed=found.message)
    command = str(found.value.get("command", ""))
    for value in found.value.get("questions", ()):
        text = _text(program, value, found.value.get("left_out", ()))
        executes = value.get("kind") == "execute"
        if why := await _denied(ls, progress, text, command) or await asyncio.to_thread(_keep, value):
            return Consent(why, executes)
    return Consent()


def _text(program: Path, value: Mapping[str, Any], left_out: Sequence[str]) -> str:
    from stitchcuda.agent.model.approvals import visible

    text = f"stitchcuda: {visible(program.name)}: {value.get('text', '')}"
    if value.get("kind") == "send" and left_out:
        more = len(left_out) - _LEFT_OUT_SHOWN
        text += f"\nNot sent: {', '.join(left_out[:_LEFT_OUT_SHOWN])}" + (f" and {more} more" if more > 0 else "")
    return text


async def _denied(ls: StitchServer, progress: Progress, text: str, command: str) -> str:
    """Why the answer is no; "" for a yes."""
    # An editor would cut the one, and show the other as a link whose words hide where it leads.
    if len(text) > _LONGEST or "](" in text:
        return (
            f"what is to be agreed to cannot be shown whole in the editor; this command shows it, and agrees: {command}"
        )
    progress.report(0, "waiting for your answer")
    params = t.ShowMessageRequestParams(
        type=t.MessageType.Warning,
        message=text,
        actions=[t.MessageActionItem(title=ALLOW), t.MessageActionItem(title=NOT_NOW)],
    )
    number = str(uuid.uuid4())
    answer = ls.protocol.send_request_async(t.WINDOW_SHOW_MESSAGE_REQUEST, params, msg_id=number)
    try:
        async with asyncio.timeout(ls.answer_seconds):
            chosen = await answer
    except TimeoutError:
        _withdraw(ls, number)
        return f"nobody answered the question; this command agrees: {command}"
    except JsonRpcException:
        return f"this editor cannot ask you; this command agrees: {command}"
    except asyncio.CancelledError:
        _withdraw(ls, number)
        raise
    title = getattr(chosen, "title", "")
    return "" if title == ALLOW else "you did not agree" if title == NOT_NOW else "the question was dismissed"


def _withdraw(ls: StitchServer, number: str) -> None:
    """Editors that can take the question away then do."""
    with contextlib.suppress(OSError, RuntimeError):
        ls.protocol.notify(t.CANCEL_REQUEST, t.CancelParams(id=number))


def _keep(value: Mapping[str, Any]) -> str:
    """Keeps the yes. Why it cannot be kept; "" when it is."""
    from stitchcuda.agent.model.approvals import Approvals, ApprovalsError, question_of_value

    question = question_of_value(value)
    if question is None:
        return "the answer cannot be kept: what was asked is not understood"
    try:
        Approvals().record(question)
    except ApprovalsError as error:
        return str(error)
    return ""
