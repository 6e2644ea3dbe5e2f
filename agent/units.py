"""Units: the pieces that a stitched version is made of, each with what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.analysis.proof.model import Declared


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Bytes `[start, end)` of a file become `text`. Offsets count in the text that the unit was made for."""

    path: str
    start: int
    end: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Obligation:
    """Something that had to hold before the edit was made, and what showed it."""

    what: str
    shown_by: str


@dataclass(frozen=True, slots=True)
class Unit:
    """`id` is a hash of the edits and the transform. `parents` are the units that it builds on: without them it neither
    fits nor holds. `serves` are contract fields ("bounds[0]"). The edits count in the text after the units `on`, None: after all
    units before it."""

    id: str
    parents: tuple[str, ...]
    transform: str
    why: str
    edits: tuple[TextEdit, ...]
    declared: Declared
    obligations: tuple[Obligation, ...] = ()
    serves: tuple[str, ...] = ()
    on: tuple[str, ...] | None = None


def leaves(path: str) -> bool:
    """Whether a path of a version would lead out of its folder, or names no file at all."""
    if not path.strip(".") or path.endswith(("/", "\\")) or "\0" in path:
        return True
    return path.startswith(("/", "\\")) or ":" in path[:2] or ".." in path.replace("\\", "/").split("/")
