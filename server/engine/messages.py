"""What the server and its analysis process say to each other: pickled dataclasses with a length in front.

Pickle is fine here: both ends are the same program, and the pipe is private to them.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from typing import TypeAlias

from stitchcuda.server.engine.facts import FileFacts
from stitchcuda.server.settings import Settings

LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class OpenText:
    revision: int
    language: str
    text: bytes


@dataclass(frozen=True, slots=True)
class EditedText:
    """The text that was sent last with all but its first `front` and last `back` bytes replaced: a keystroke in a large
    file must not move megabytes."""

    revision: int
    front: int
    back: int
    middle: bytes


@dataclass(frozen=True, slots=True)
class Texts:
    """Open documents that changed, and paths that are not open any more (the disk's text counts again)."""

    changed: dict[str, OpenText | EditedText]
    closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workspace:
    roots: tuple[str, ...]
    whole_program: bool
    alone: tuple[str, ...] = ()  # of the roots: files in these are analysed without the rest of their program


@dataclass(frozen=True, slots=True)
class DiskChanged:
    """Files may have changed on the disk; empty means any."""

    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Analyse the programs that hold `path` and send `Result`s."""

    path: str


@dataclass(frozen=True, slots=True)
class StopIndexing:
    """Do not read the rest of any program now (the user cancelled); a later `Check` of another file may."""


@dataclass(frozen=True, slots=True)
class GraphText:
    """Ask for the execution graph of the program of `path`, of one function or of all, as `text`, `mermaid` or `json`."""

    id: int
    path: str
    function: str
    format: str
    trace: str = ""  # the file of a measured run, for `text` and `html`


@dataclass(frozen=True, slots=True)
class Begun:
    """What the process does from now on is about this file; "": nothing is left to be done."""

    path: str


@dataclass(frozen=True, slots=True)
class Result:
    """Findings in the open files of one program, with the revisions they hold for. `complete`: the program's other files
    were read; else another `Result` follows."""

    path: str  # of the `Check`
    revisions: dict[str, int]
    facts: dict[str, FileFacts]
    complete: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Partly:
    """What is known for good of open files while their analysis goes on; a `Result` with all of it follows."""

    revisions: dict[str, int]
    facts: dict[str, FileFacts]


@dataclass(frozen=True, slots=True)
class Outline:
    """Launches and functions of open files, sent after the `Result` with the findings: those are waited for."""

    revisions: dict[str, int]
    facts: dict[str, FileFacts]


@dataclass(frozen=True, slots=True)
class Indexing:
    """Progress of reading a program. `done` equals `total` in the last message; `total` is never 0."""

    root: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The analysis of `path` ended with an exception: type and place, without text of the user."""

    path: str
    revision: int
    reason: str


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """`refused` is why there is none, in words for the user."""

    id: int
    text: str
    error: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class OutlineAt:
    """Ask for the part of the `Outline` that is about the function around a byte of an open file's text: all of it takes long for a long
    file, and is left alone for every edit."""

    id: int
    path: str
    revision: int
    at: int


@dataclass(frozen=True, slots=True)
class OutlineAnswer:
    """None: the text of that revision was not analysed, or no function is there."""

    id: int
    facts: FileFacts | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class FixAll:
    """Ask for all safe fixes of an open file that the settings let through, each proved by a new analysis."""

    id: int
    path: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class FixAnswer:
    """Edits `(start, end, text)` of the text of that revision, in bytes, in order."""

    id: int
    revision: int
    edits: tuple[tuple[int, int, str], ...] = ()
    error: str = ""


Request: TypeAlias = Texts | Workspace | DiskChanged | Check | StopIndexing | GraphText | FixAll | OutlineAt
Reply: TypeAlias = Begun | Result | Partly | Outline | Indexing | Failed | GraphAnswer | FixAnswer | OutlineAnswer


def pack(message: Request | Reply) -> bytes:
    body = pickle.dumps(message, protocol=5)
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> object:
    return pickle.loads(body)
