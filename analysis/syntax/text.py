"""Documents: immutable text snapshots with a line index that follows the Language Server Protocol.

Text is kept as UTF-8 bytes because everything behind it (tree-sitter, the IR, edits) counts bytes. Lines end at `\\n`,
`\\r\\n` and `\\r` only: `str.splitlines` also breaks at form feed, U+2028 and others, and then line numbers differ from
the client's.

One keystroke in a 50,000-line file must cost a few milliseconds, so the index is a list of blocks of line starts, each
relative to its block: an edit rebuilds one or two blocks and moves the offsets of the rest (a few hundred integers).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

Encoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]
"""Units of a column. `utf-32` counts characters (code points), which is also what the command line prints."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BEYOND = re.compile("[\U00010000-\U0010ffff]")  # characters of two UTF-16 units
_LONG = 4096  # bytes of a line up to a place, from which on is counted by steps
_STEP = 1024
_BLOCK = 256  # lines a block when the index is built
_MAX_BLOCK = 2 * _BLOCK


@dataclass(frozen=True, slots=True)
class Position:
    """Zero-based line and column; the column counts units of the encoding it was made with."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ByteEdit:
    """The bytes `[start, end)` of one text became `size` other bytes."""

    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class Change:
    """A client's change: `start`/`end` None replaces the whole text."""

    start: Position | None
    end: Position | None
    text: str


class LineIndex:
    """Byte offset of every line start. Immutable; `edited` gives the index of an edited text."""

    __slots__ = ("_blocks", "_count", "_first_lines", "_offsets")

    def __init__(
        self, blocks: Sequence[tuple[int, ...]], offsets: Sequence[int], first_lines: Sequence[int], count: int
    ):
        self._blocks = blocks  # line starts relative to the block's offset; the first is 0
        self._offsets = offsets  # byte offset of each block
        self._first_lines = first_lines  # number of the first line of each block
        self._count = count

    @classmethod
    def of(cls, text: bytes | bytearray) -> LineIndex:
        starts = [0]
        starts.extend(m.end() for m in _LINE_END.finditer(text))
        return cls._from_starts([starts[i : i + _BLOCK] for i in range(0, len(starts), _BLOCK)])

    @classmethod
    def _from_starts(cls, groups: Iterable[Sequence[int]]) -> LineIndex:
        blocks, offsets, first_lines, count = [], [], [], 0
        for group in groups:
            base = group[0]
            blocks.append(tuple(s - base for s in group))
            offsets.append(base)
            first_lines.append(count)
            count += len(group)
        return cls(blocks, offsets, first_lines, count)

    def __len__(self) -> int:
        """Number of lines; a text that ends with a line end has an empty last line."""
        return self._count

    def start(self, line: int) -> int:
        """Byte offset of the first byte of a line."""
        block = bisect_right(self._first_lines, line) - 1
        return self._offsets[block] + self._blocks[block][line - self._first_lines[block]]

    def line_at(self, offset: int) -> int:
        """The line that holds the byte at `offset`; the last line for any offset past the end."""
        block = max(bisect_right(self._offsets, offset) - 1, 0)
        return self._first_lines[block] + bisect_right(self._blocks[block], offset - self._offsets[block]) - 1

    def edited(self, text: bytes | bytearray, edit: ByteEdit) -> LineIndex:
        """The index after `edit`, given the text *after* it."""
        # A \r before or a \n after the edit can join with what was inserted, so one more line on each side is scanned.
        first = max(self.line_at(max(edit.start - 1, 0)) - 1, 0)
        last = min(self.line_at(edit.end + 1) + 1, self._count - 1)
        delta = edit.size - (edit.end - edit.start)
        low = bisect_right(self._first_lines, first) - 1
        high = bisect_right(self._first_lines, last) - 1
        begin = self._offsets[low]
        finish = self._offsets[high + 1] + delta if high + 1 < len(self._blocks) else len(text)
        starts = [begin]
        starts.extend(begin + m.end() for m in _LINE_END.finditer(bytes(text[begin:finish])))
        if high + 1 < len(self._blocks) and starts[-1] == finish:
            starts.pop()  # it is the first line of the block behind
        size = len(starts) if len(starts) <= _MAX_BLOCK else _BLOCK
        pieces = [starts[i : i + size] for i in range(0, len(starts), size)]
        middle = [tuple(s - piece[0] for s in piece) for piece in pieces]
        firsts, line = [], self._first_lines[low]
        for piece in pieces:
            firsts.append(line)
            line += len(piece)
        behind = self._first_lines[high + 1] if high + 1 < len(self._blocks) else self._count
        shift = line - behind
        return LineIndex(
            [*self._blocks[:low], *middle, *self._blocks[high + 1 :]],
            [*self._offsets[:low], *(p[0] for p in pieces), *(o + delta for o in self._offsets[high + 1 :])],
            [*self._first_lines[:low], *firsts, *(n + shift for n in self._first_lines[high + 1 :])],
            self._count + shift,
        )


@dataclass(frozen=True)
class Document:
    """One version of one file's text. `path` is what the engine calls the file, `uri` what the client calls it."""

    uri: str
    path: str
    version: int
    encoded: bytes
    language: str = ""
    revision: int = 0  # set by the document store: never the same for two texts, while `version` starts again
    index: LineIndex | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, uri: str, path: str, version: int, text: str, language: str = "") -> Document:
        return cls(uri, path, version, encode(text), language)

    @cached_property
    def text(self) -> str:
        return decode(self.encoded)

    @cached_property
    def lines(self) -> LineIndex:
        return self.index if self.index is not None else LineIndex.of(self.encoded)

    def line(self, line: int) -> bytes:
        """A line without its line end."""
        start, end = self.line_span(line)
        return self.encoded[start:end]

    def line_span(self, line: int) -> tuple[int, int]:
        """Byte range of a line without its line end."""
        return _line_span(self.encoded, self.lines, line)

    def offset(self, position: Position, encoding: Encoding) -> int:
        """Byte offset of a position. Past the end of a line it is the line's end, past the last line the text's end; in
        the middle of a character it is the character's start."""
        return _offset(self.encoded, self.lines, position, encoding)

    def position(self, offset: int, encoding: Encoding) -> Position:
        """Line and column of a byte offset (clamped to the text)."""
        offset = min(max(offset, 0), len(self.encoded))
        line = self.lines.line_at(offset)
        start = self.lines.start(line)
        if encoding == "utf-8" or offset - start < _LONG:
            return Position(line, units(self.encoded[start:offset], encoding))
        steps = self._steps(line, encoding)
        begin, before = steps[bisect_right(steps, offset, key=lambda step: step[0]) - 1]
        return Position(line, before + units(self.encoded[begin:offset], encoding))

    def _steps(self, line: int, encoding: Encoding) -> list[tuple[int, int]]:
        """Byte offsets in a long line, each with the column there: a tool wrote it, and there may be hundreds of places in it."""
        known = self._steps_by_line.get((line, encoding))
        if known is None:
            at, end = self.line_span(line)
            known = [(at, 0)]
            column = 0
            while end - at > _STEP:
                behind = at + _STEP
                while behind > at + 1 and self.encoded[behind] & 0xC0 == 0x80:
                    behind -= 1
                column += units(self.encoded[at:behind], encoding)
                at = behind
                known.append((at, column))
            self._steps_by_line[line, encoding] = known
        return known

    @cached_property
    def _steps_by_line(self) -> dict[tuple[int, str], list[tuple[int, int]]]:
        return {}

    def changed(
        self, changes: Sequence[Change], version: int, encoding: Encoding
    ) -> tuple[Document, tuple[ByteEdit, ...]]:
        """The document after a client's changes, each given in the coordinates the one before it left."""
        text = bytearray(self.encoded)
        index = self.lines
        edits: list[ByteEdit] = []
        for change in changes:
            new = encode(change.text)
            if change.start is None or change.end is None:
                edits.append(ByteEdit(0, len(text), len(new)))
                text = bytearray(new)
                index = LineIndex.of(text)
                continue
            start = _offset(text, index, change.start, encoding)
            end = max(_offset(text, index, change.end, encoding), start)
            edit = ByteEdit(start, end, len(new))
            text[start:end] = new
            index = index.edited(text, edit)
            edits.append(edit)
        return Document(self.uri, self.path, version, bytes(text), self.language, index=index), tuple(edits)


def encode(text: str) -> bytes:
    """UTF-8; a lone surrogate, which JSON can carry, is kept as three bytes instead of failing."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")


def decode(text: bytes | bytearray) -> str:
    """The inverse of `encode`; bytes of any other encoding become U+FFFD."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        try:
            return text.decode(errors="surrogatepass")
        except UnicodeDecodeError:
            return text.decode(errors="replace")


def units(text: bytes | bytearray, encoding: Encoding) -> int:
    """Length of UTF-8 bytes in units of `encoding`."""
    if encoding == "utf-8" or text.isascii():
        return len(text)
    characters = decode(text)
    if encoding == "utf-32":
        return len(characters)
    return len(characters.encode("utf-16-le", "surrogatepass")) // 2


def carry(span: tuple[int, int], edits: Iterable[ByteEdit]) -> tuple[int, int] | None:
    """Where a byte range is after edits, or None when one of them touched its inside."""
    start, end = span
    for edit in edits:
        delta = edit.size - (edit.end - edit.start)
        if edit.end <= start:
            start += delta
            end += delta
        elif edit.start < end:
            return None
    return start, end


def at_before(offset: int, edits: Sequence[ByteEdit]) -> int:
    """Where a byte of a text was before the edits that led to it; of what they inserted, where they did."""
    for edit in reversed(edits):
        if offset >= edit.start + edit.size:
            offset += edit.end - edit.start - edit.size
        elif offset > edit.start:
            offset = edit.start
    return offset


def hull(edits: Iterable[ByteEdit], size: int) -> tuple[int, int]:
    """How many bytes at the front and at the back of a text of `size` bytes no edit of a sequence touched."""
    whole = front = back = size
    for edit in edits:
        front = min(front, edit.start)
        back = min(back, size - edit.end)
        size += edit.size - (edit.end - edit.start)
    return front, min(back, whole - front)


def _line_span(text: bytes | bytearray, index: LineIndex, line: int) -> tuple[int, int]:
    start = index.start(line)
    end = index.start(line + 1) if line + 1 < len(index) else len(text)
    if end > start and text[end - 1] == 0x0A and line + 1 < len(index):
        end -= 1
    if end > start and text[end - 1] == 0x0D and line + 1 < len(index):
        end -= 1
    return start, end


def _offset(text: bytes | bytearray, index: LineIndex, position: Position, encoding: Encoding) -> int:
    if position.line < 0:
        return 0
    if position.line >= len(index):
        return len(text)
    start, end = _line_span(text, index, position.line)
    column = max(position.column, 0)
    if encoding == "utf-8":
        offset = min(start + column, end)
        while offset > start and offset < end and text[offset] & 0xC0 == 0x80:
            offset -= 1
        return offset
    line = text[start:end]
    if line.isascii():
        return min(start + column, end)
    characters = decode(line)
    if encoding == "utf-16":
        wide = 0  # characters of two units before the column
        for found in _BEYOND.finditer(characters):
            if found.start() + wide >= column - 1:
                wide += found.start() + wide == column - 1  # in the middle of it
                break
            wide += 1
        column -= wide
    return min(start + len(encode(characters[:column])), end)  # longer than the bytes where U+FFFD stands for one
