"""The user's settings for one file: over what `[check]` of its stitchcuda.toml says."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lsprotocol import types as t
from stitchcuda.server.check_files import CheckFiles
from stitchcuda.server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stitchcuda.server.lsp import StitchServer

FILES = ("stitchcuda.toml", "pyproject.toml")


@dataclass
class ProjectFiles:
    """What was read of project files, and the mistakes in them that the user knows of."""

    known: CheckFiles | None = None
    told: set[str] = field(default_factory=set)


def settings_at(ls: StitchServer, path: str) -> Settings:
    """The settings that hold for a file. What the editor's settings choose goes first; what either of the two ignores is ignored."""
    files = ls.project_files
    if files.known is None:
        files.known = CheckFiles(ls.roots)
    chosen = ls.settings_of(path)
    if not os.path.isabs(path):  # a text that is no file belongs to what is opened
        path = os.path.join(ls.roots[0], "untitled") if ls.roots else ""
    if not os.path.isabs(path):
        return chosen
    said = files.known.of(path)
    _tell(ls, files.known.mistakes([path]))
    if said.excluded:
        return replace(chosen, ignore=("all",))
    section = said.section
    if not (section.select or section.ignore or section.severity):
        return chosen
    return replace(
        chosen,
        select=chosen.select or section.select,
        ignore=(*chosen.ignore, *section.ignore),
        severity={**section.severity, **chosen.severity},
    )


def forget(ls: StitchServer) -> None:
    """Project files are read again when they are asked for."""
    ls.project_files.known = None


def are_among(paths: Iterable[str]) -> bool:
    return any(os.path.basename(path) in FILES for path in paths)


def _tell(ls: StitchServer, mistakes: tuple[str, ...]) -> None:
    # In a file that is open they stand where they are.
    opened = tuple(f"{document.path}: " for document in ls.documents.all())
    fresh = [m for m in mistakes if m not in ls.project_files.told and not m.startswith(opened)]
    if fresh:
        ls.project_files.told.update(fresh)
        text = "\n".join([*fresh, "What is right in the file counts all the same."])
        ls.window_show_message(t.ShowMessageParams(type=t.MessageType.Warning, message=text))
