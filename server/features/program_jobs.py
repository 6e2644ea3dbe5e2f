"""What jobs about a whole program share: which program an open file belongs to, and when running one is allowed.

The commands that jobs run read the disk, so a program with unsaved text is not run: what was checked would not be what is on the
screen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from stitchcuda.analysis.syntax.text import Document

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

_DESCRIPTIONS = ("stitchcuda.toml", "CMakeLists.txt", "Makefile", "makefile", "GNUmakefile", "compile_commands.json")
UNTRUSTED = "the workspace is not trusted, so nothing of it is built or run"


def document_of(ls: StitchServer, command: str, uri: object) -> Document:
    """The open CUDA document that a command is about. Raises what the client is told."""
    document = ls.documents.get(uri) if isinstance(uri, str) else None
    if document is None or not ls.is_relevant(document):
        raise JsonRpcInvalidParams(message=f"{command} takes the URI of an open file that uses CUDA")
    return document


def program_of(path: str, roots: tuple[str, ...]) -> Path:
    """The program that a file belongs to: the nearest folder, up to the workspace's root, with a build description; else
    the file itself."""
    file = Path(path)
    stop = {Path(root) for root in roots}
    for folder in file.parents:
        if any((folder / name).is_file() for name in _DESCRIPTIONS):
            return folder
        if folder in stop or (folder / ".git").exists():
            break
    return file


def unsaved(ls: StitchServer, program: Path) -> str:
    """A file of the program whose text on the screen is not the one on the disk; "" when there is none."""
    inside = str(program) + os.sep if program.is_dir() else str(program)
    for document in ls.documents.all():
        if document.path == str(program) or document.path.startswith(inside):
            try:
                saved = Path(document.path).read_bytes().removeprefix(b"\xef\xbb\xbf")
            except OSError:
                return document.path
            if saved != document.encoded:
                return document.path
    return ""


def refuse(reason: str) -> JsonRpcException:
    return JsonRpcException(code=int(t.LSPErrorCodes.RequestFailed), message=reason)


def show(ls: StitchServer, text: str, kind: t.MessageType = t.MessageType.Info) -> None:
    ls.window_show_message(t.ShowMessageParams(type=kind, message=text))
