"""What jobs about a whole program share: how they open, take turns and are refused.

The commands that jobs run read the disk, so a program with unsaved text is not run: what was checked would not be what is on the
screen.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from stitchcuda.analysis.syntax.text import Document
from stitchcuda.server import child_command, sources
from stitchcuda.server import program as programs
from stitchcuda.server.jobs import Job, State
from stitchcuda.server.progress import Progress

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

UNTRUSTED = "the workspace is not trusted, so nothing of it is built or run"


@dataclass
class Turns:
    """Jobs run what they run one after the other: side by side they would disturb each other's times. `jobs` holds the newest
    one by program."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    jobs: dict[str, Job] = field(default_factory=dict)


def start(
    ls: StitchServer, title: str, program: Path, work: Callable[[Job], Awaitable[dict[str, Any]]]
) -> dict[str, str]:
    """Starts what the user asked for about a program; validations on save give way. Two at once about one program would each
    change what the other rests on: the second is refused."""
    other = ls.turns.jobs.get(str(program))
    if other is not None and other.state is State.RUNNING:
        raise refuse(f"{other.title} has not ended yet: wait for it, or cancel it (job {other.id})")
    for running in ls.on_save.running.values():
        ls.jobs.cancel(running)

    async def told(job: Job) -> dict[str, Any]:
        try:
            return await work(job)
        except Exception as error:
            text = f"{title}: internal error: {type(error).__name__}. This is a bug in stitchcuda. Please report it"
            show(ls, f"stitchcuda: {text}", t.MessageType.Error)
            raise

    job = ls.jobs.start(title, told, asked=True)
    ls.turns.jobs[str(program)] = job
    return {"job": job.id}


async def run(
    ls: StitchServer, job: Job, words: Sequence[str], secrets: Mapping[str, str] | None = None
) -> child_command.Answer:
    """Runs a command for a job, with progress, when its turn has come. `secrets` are variables for it alone."""
    async with Progress(ls, job) as progress:
        return await run_in_turn(ls, job, progress, words, secrets)


async def run_in_turn(
    ls: StitchServer, job: Job, progress: Progress, words: Sequence[str], secrets: Mapping[str, str] | None = None
) -> child_command.Answer:
    """The same for a job that shows its progress already."""
    if ls.turns.lock.locked():
        progress.report(0, "waiting for another run to end")
    async with ls.turns.lock:
        return await child_command.run(job, words, progress.report, ls.child_command, secrets)


def document_of(ls: StitchServer, command: str, uri: object) -> Document:
    """The open CUDA document that a command is about. Raises what the client is told."""
    document = ls.documents.get(uri) if isinstance(uri, str) else None
    if document is None or not ls.is_relevant(document):
        raise JsonRpcInvalidParams(message=f"{command} takes the URI of an open file that uses CUDA")
    return document


def program_of(ls: StitchServer, document: Document) -> Path:
    """The program that a document belongs to: a folder, or a file that is one by itself."""
    return Path(programs.root(document.path, ls.roots))


def saved_program(ls: StitchServer, command: str, uri: object, reading: str, *, runs: bool = False) -> Path:
    """The program of an open file, none of whose files has unsaved text; `reading` says why that matters. With `runs` the workspace must
    be trusted. Raises what the client is told."""
    document = document_of(ls, command, uri)
    if not os.path.isabs(document.path):
        raise refuse(f"{document.uri} is no file on the disk: save it as one first")
    if runs and not ls.trusted:
        raise refuse(UNTRUSTED)
    program = program_of(ls, document)
    if dirty := unsaved(ls, program):
        raise refuse(f"{dirty}: {reading}")
    return program


def stitch_words(ls: StitchServer, program: Path, *options: str) -> list[str]:
    """The command that stitches a program. In a workspace that is not trusted nothing is built or run."""
    return ["stitch", str(program), *options, *([] if ls.trusted else ["--no-run"])]


def unsaved(ls: StitchServer, program: Path) -> str:
    """What to do first, because a file of the program may hold another text on the screen than on the disk; "" when none does."""
    for document in ls.documents.all():
        if _is_part(ls, program, document.path):
            try:
                saved = Path(document.path).read_bytes().removeprefix(b"\xef\xbb\xbf")
            except (OSError, ValueError):  # no file of the disk has such a name
                return f"save {document.path} first"
            if saved != document.encoded:
                return f"save {document.path}{'' if _is_utf8(saved) else ' as UTF-8'} first"
    return ""


def _is_part(ls: StitchServer, program: Path, path: str) -> bool:
    """Whether a job about the program reads a file."""
    if path == str(program) or program.is_dir():
        return Path(path).is_relative_to(program)
    text = sources.read_file(str(program)) or b""
    folders = sources.include_folders(str(program), ls.roots)
    return path in sources.includes(str(program), text, sources.read_file, folders)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def refuse(reason: str) -> JsonRpcException:
    return JsonRpcException(code=int(t.LSPErrorCodes.RequestFailed), message=reason)


@dataclass(frozen=True)
class Ended:
    """What came of a job, for clients that offer what can be done next. `applied`: the text of the program is another one now."""

    outcome: str
    applied: bool = False


def show(ls: StitchServer, text: str, kind: t.MessageType = t.MessageType.Info, ended: Ended | None = None) -> None:
    """Clients that show what the server is doing get what came of a job as a member of its own beside the words."""
    if ended is None or not ls.shows_status:
        ls.window_show_message(t.ShowMessageParams(type=kind, message=text))
        return
    params = {"type": kind.value, "message": text, "ended": asdict(ended)}
    ls.protocol.tell(t.WINDOW_SHOW_MESSAGE, json.dumps(params))
