"""Where a definition goes: right below the declaration or at the end of the named file, as text that is added and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stitchcuda.agent.implementing.marker import DONE
from stitchcuda.agent.implementing.stages import STATUS, Stage
from stitchcuda.agent.units import TextEdit

_BOM = b"\xef\xbb\xbf"
_REST = re.compile(rb"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/[ \t]*)?(?=\r|\n|\Z)")


@dataclass(frozen=True, slots=True)
class Place:
    """Text may be added at `at` of a file (bytes, a byte-order mark counts), between `before` and `after`, which belong to it."""

    path: str
    at: int
    before: bytes
    after: bytes

    def line_in(self, text: bytes) -> int:
        """The line on which what is added begins, counted from 1."""
        return (text[: self.at] + self.before).count(b"\n") + 1


def place_of(stage: Stage, text: bytes) -> Place:
    """`text` is that of `stage.file`, as it is on the disk."""
    end = b"\r\n" if b"\r\n" in text else b"\n"
    shift = len(_BOM) if text.startswith(_BOM) else 0
    if stage.file == stage.path:
        rest = _REST.match(text, stage.end + shift)
        if rest is not None:
            return Place(stage.file, rest.end(), end + end, b"")
        return Place(stage.file, stage.end + shift, end, end)
    before = b"" if text.endswith((b"\n", b"\r")) or not text else end
    heads, tails = opened(stage, end)
    return Place(stage.file, len(text), before + end + heads, end + tails)


def opened(stage: Stage, end: bytes) -> tuple[bytes, bytes]:
    """What opens the namespace of a stage in another file, and closes it; `end` ends a line."""
    names = [part.encode() for part in stage.namespace.split("::") if part]
    return b"".join(b"namespace %s {%s" % (name, end) for name in names), b"".join(b"}" + end for _ in names)


def with_definition(stage: Stage, text: bytes, definition: bytes) -> bytes:
    """The file with a definition in its place."""
    place = place_of(stage, text)
    return text[: place.at] + place.before + definition + place.after + text[place.at :]


def stub(stage: Stage) -> bytes:
    """A definition that does nothing, for the model to write."""
    body = "    return cudaSuccess;\n" if stage.function.returns.name == STATUS else ""
    return f"{stage.signature} {{\n    // to be written\n{body}}}".encode()


def definition_in(stage: Stage, text: bytes, written: bytes) -> bytes | None:
    """What was added to the file `text` in the definition's place; None when anything else differs."""
    place = place_of(stage, text)
    head, tail = text[: place.at] + place.before, place.after + text[place.at :]
    if not written.startswith(head) or not written.endswith(tail) or len(written) < len(head) + len(tail):
        return None
    return written[len(head) : len(written) - len(tail)].strip()


def added(stage: Stage, text: bytes, definition: bytes) -> TextEdit:
    """The edit of the file `text` that puts a definition in its place."""
    place = place_of(stage, text)
    return TextEdit(place.path, place.at, place.at, place.before + definition + place.after)


def edits_of(stage: Stage, text: bytes, marker_text: bytes, definition: bytes) -> tuple[TextEdit, ...]:
    """The unit's edits: the definition, and the word in the marker that says that it is done. `marker_text` is that of the file with
    the marker, as it is on the disk."""
    shift = len(_BOM) if marker_text.startswith(_BOM) else 0
    at = stage.marker.word_end + shift
    word = TextEdit(stage.path, at, at, DONE)
    return word, added(stage, text, definition)
