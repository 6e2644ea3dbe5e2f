"""Anchored edits to byte ranges: exact, all of them or none.

An anchor must occur exactly once. Ends of lines, and blanks before them, may differ from the file's: they are never part of what an
edit means, and lines that an edit leaves as they are keep their bytes.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stitchcuda.agent.differences import differences
from stitchcuda.agent.invention.definitions import Definition, definitions, named
from stitchcuda.agent.roles.answers import AnchoredEdit, CreateFile, ReplaceText, RewriteFunction
from stitchcuda.agent.units import TextEdit, leaves
from stitchcuda.analysis.syntax.text import LineIndex, decode, encode

_SHOWN = 1_200  # characters of a file's text in feedback
_LISTED = 12  # names in feedback
_COMPARED = 4_000_000  # lines times lines: beyond, only what is equal at both ends is kept
_BLANKS = re.compile(rb"[ \t]*(?:\r\n|\n|\r)")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Edits that cannot be made as they are written. `reason` is one sentence for the journal, `feedback` is for the model;
    `times` counts how often each anchor occurs that does not occur once, `functions` names those whose anchors failed."""

    reason: str
    feedback: str
    times: Mapping[str, int] = field(default_factory=dict)
    functions: tuple[str, ...] = ()


class _Wrong(Exception):
    def __init__(self, reason: str, feedback: str, times: Mapping[str, int] | None = None, function: str = "") -> None:
        super().__init__(reason)
        self.reason, self.feedback, self.times, self.function = reason, feedback, dict(times or {}), function


def place(edits: Sequence[AnchoredEdit], texts: Mapping[str, bytes]) -> tuple[TextEdit, ...] | Unplaced:
    """The same edits as byte ranges of `texts`, in order of file and place, not overlapping, each of them a change. What changes
    nothing is left out, unless that is all there is."""
    wrong: list[_Wrong] = []
    whole: list[tuple[str, int, int, int, TextEdit]] = []
    for number, given in enumerate(edits, 1):
        try:
            found = _create(given, texts) if isinstance(given, CreateFile) else _change(given, texts)
        except _Wrong as error:
            error.feedback = f"Edit {number}: {error.feedback}"
            error.reason = f"edit {number}: {error.reason}"
            wrong.append(error)
            continue
        whole.append((found.path, found.start, found.end, number, found))
    whole.sort(key=lambda item: item[:4])
    placed = [hunk for *_, edit in whole for hunk in _hunks(edit, texts.get(edit.path))]
    for a, b in itertools.pairwise(whole):
        if a[0] == b[0] and (b[1] < a[2] or (a[1], a[2]) == (b[1], b[2])):
            first, second = sorted((a[3], b[3]))
            text = f"Edits {first} and {second} change the same text of {a[0]}. Give one edit for it."
            wrong.append(_Wrong(f"edits {first} and {second} overlap", text))
    if not wrong and not placed:
        wrong.append(_Wrong("nothing is changed", "The edits change nothing: the new text is the text that is there."))
    if wrong:
        times = {anchor: count for error in wrong for anchor, count in error.times.items()}
        functions = tuple(dict.fromkeys(error.function for error in wrong if error.function))
        feedback = "No edit was made.\n" + "\n".join(error.feedback for error in wrong)
        return Unplaced("; ".join(error.reason for error in wrong), feedback, times, functions)
    return tuple(placed)


# ---------------------------------------------------------------------------------------------------------- one edit


def _create(edit: CreateFile, texts: Mapping[str, bytes]) -> TextEdit:
    path = edit.path
    parts = path.split("/")
    if leaves(path) or "\\" in path or any(part in ("", ".") or part != part.strip() for part in parts):
        raise _Wrong(
            "no path for a new file", f"{path!r} is no path below the program's folder, such as src/fused.cuh."
        )
    if path.casefold() in {known.casefold() for known in texts}:
        raise _Wrong(f"{path} exists", f"{path} exists already. Change it with an anchor, or choose another name.")
    if not edit.text.strip():
        raise _Wrong(f"{path} would be empty", f"The new file {path} has no text.")
    return TextEdit(path, 0, 0, encode(edit.text))


def _change(edit: ReplaceText | RewriteFunction, texts: Mapping[str, bytes]) -> TextEdit:
    path = edit.path.removeprefix("./")
    text = texts.get(path)
    if text is None:
        raise _Wrong(f"no file {edit.path!r}", f"There is no file {edit.path!r}. The files are {_few(sorted(texts))}.")
    if isinstance(edit, ReplaceText):
        start, end = _anchor(path, text, edit.anchor)
    else:
        start, end = _function(path, text, edit)
    return TextEdit(path, start, end, _with_line_ends(edit.text, text, start, end))


def _anchor(path: str, text: bytes, anchor: str) -> tuple[int, int]:
    """Where an anchor occurs. Raises _Wrong unless that is exactly once."""
    wanted = encode(anchor)
    if not wanted.strip():
        raise _Wrong("an anchor is empty", "The anchor is empty. Give text of the file that occurs once.")
    found = _occurrences(text, wanted)
    if not found:
        flat, offsets = _flat(text)
        needle = _flat(wanted)[0]
        found = [(offsets[at], offsets[end - 1] + 1) for at, end in _occurrences(flat, needle)]
        # The end of a line in the flat text stands for one or two bytes of the file.
        found = [(a, b + 1 if text[b - 1 : b + 1] == b"\r\n" else b) for a, b in found]
    if len(found) == 1:
        return found[0]
    if found:
        lines = LineIndex.of(text)
        where = ", ".join(str(lines.line_at(start) + 1) for start, _ in found[:_LISTED])
        raise _Wrong(
            f"an anchor occurs {len(found)} times in {path}",
            f"the anchor occurs {len(found)} times in {path} (lines {where}). Make it longer, so that it occurs once:\n"
            f"{_quoted(anchor)}",
            {anchor: len(found)},
            _around(text, found[0][0]),
        )
    near, function = _nearest(text, anchor)
    raise _Wrong(
        f"an anchor does not occur in {path}",
        f"the anchor does not occur in {path}. Copy it from the file, character by character:\n{_quoted(anchor)}{near}",
        {anchor: 0},
        function,
    )


def _occurrences(text: bytes, wanted: bytes) -> list[tuple[int, int]]:
    """All of them, overlapping ones too."""
    found = []
    at = text.find(wanted)
    while at >= 0:
        found.append((at, at + len(wanted)))
        at = text.find(wanted, at + 1)
    return found


def _flat(text: bytes) -> tuple[bytes, list[int]]:
    """The text with `\\n` for each end of a line and no blanks before it, and the offset in `text` of each of its bytes."""
    out = bytearray()
    offsets: list[int] = []
    at = 0
    for match in _BLANKS.finditer(text):
        out += text[at : match.start()] + b"\n"
        offsets += range(at, match.start())
        ends = match.group().lstrip(b" \t")
        offsets.append(match.end() - len(ends))
        at = match.end()
    out += text[at:]
    offsets += range(at, len(text))
    return bytes(out), offsets


def _function(path: str, text: bytes, edit: RewriteFunction) -> tuple[int, int]:
    if path.endswith((".py", ".pyi")):
        raise _Wrong("whole functions of Python", f"in {path} functions cannot be given whole. Give an anchor.")
    here = definitions(text)
    found = named(here, edit.function)
    if not found:
        known = _few([d.qualified for d in here])
        raise _Wrong(
            f"no function {edit.function} in {path}",
            f"{path} defines no function {edit.function!r}. It defines {known}. New functions stand in the text of another "
            f"edit, beside the code that uses them.",
        )
    given = named(definitions(encode(edit.text)), found[0].name)
    if not given:
        raise _Wrong(
            f"the text for {edit.function} does not define it",
            f"the text does not define {edit.function}. Give the whole definition: signature and body.",
            function=edit.function,
        )
    if len(found) > 1:
        same = [d for d in found if any(d.types == g.types for g in given)]
        if len(same) != 1:
            lines = LineIndex.of(text)
            where = ", ".join(f"{d.shown} at line {lines.line_at(d.start) + 1}" for d in found[:_LISTED])
            raise _Wrong(
                f"{edit.function} is ambiguous in {path}",
                f"{path} defines {edit.function} {len(found)} times ({where}). Keep the parameters of the one that you mean, give "
                f"its qualified name, or use an anchor.",
                function=edit.function,
            )
        found = (same[0],)
    if not found[0].plain:
        raise _Wrong(
            f"a macro defines {edit.function}", f"a macro defines {edit.function} in {path}. Give an anchor instead."
        )
    return found[0].start, found[0].end


# ------------------------------------------------------------------------------------------------------- the new text


def _with_line_ends(new: str, text: bytes, start: int, end: int) -> bytes:
    """The new text with the file's own line ends: those of the range, else the next one's."""
    plain = re.sub(rb"\r\n|\r", b"\n", encode(new))
    own = re.search(rb"\r\n|\n|\r", text[start:end]) or re.compile(rb"\r\n|\n|\r").search(text, end)
    own = own or re.search(rb"\r\n|\n|\r", text)
    return plain.replace(b"\n", own.group()) if own else plain


def _hunks(edit: TextEdit, text: bytes | None) -> list[TextEdit]:
    """The edit without the lines that stay: those keep the bytes that they have."""
    if text is None:
        return [edit]
    old, new = _LINE.findall(text[edit.start : edit.end]), _LINE.findall(edit.text)
    offsets = list(itertools.accumulate((len(line) for line in old), initial=edit.start))
    ours, theirs = [_bare(line) for line in old], [_bare(line) for line in new]
    return [
        TextEdit(edit.path, offsets[a], offsets[b], b"".join(new[c:d]))
        for a, b, c, d in differences(ours, theirs, _COMPARED)
    ]


def _bare(line: bytes) -> bytes:
    """A line as edits compare it: its end is one, whatever its bytes."""
    kept = line.rstrip(b"\r\n")
    return kept if kept == line else kept.rstrip(b" \t") + b"\n"


# ------------------------------------------------------------------------------------------------------------- feedback


def _nearest(text: bytes, anchor: str) -> tuple[str, str]:
    """What in the file looks most like the anchor, in words, and the function it stands in."""
    lines = re.split(r"\r\n|\n|\r", decode(text))
    wanted = [line.strip() for line in anchor.splitlines() if line.strip()]
    if not lines or not wanted:
        return "", ""
    longest = max(wanted, key=len)
    stripped = [line.strip() for line in lines]
    match = difflib.get_close_matches(longest[:400], {line[:400] for line in stripped if line}, 1, 0.6)
    if not match:
        return "\nNothing in the file looks like it: it may have been changed.", ""
    row = next(k for k, line in enumerate(stripped) if line[:400] == match[0])
    first = max(0, row - wanted.index(longest))
    near = "\n".join(lines[first : first + len(wanted) + 1])
    place = LineIndex.of(text)
    offset = place.start(min(row, len(place) - 1))
    return f"\nMost like it is, from line {first + 1}:\n{_quoted(near)}", _around(text, offset)


def _around(text: bytes, offset: int) -> str:
    inside: list[Definition] = [d for d in definitions(text) if d.start <= offset < d.end]
    return min(inside, key=lambda d: d.end - d.start).qualified if inside else ""


def _quoted(text: str) -> str:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\n[...]"
    return "\n".join(f"| {line}" for line in shown.splitlines())


def _few(names: Sequence[str]) -> str:
    known = list(dict.fromkeys(names))
    rest = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return (", ".join(known[:_LISTED]) + rest) if known else "none"
