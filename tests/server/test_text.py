"""Lines, columns and incremental changes, against a model that keeps the client's text in the client's units."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from stitchcuda.analysis.syntax.text import (
    ByteEdit,
    Change,
    Document,
    Encoding,
    LineIndex,
    Position,
    carry,
    hull,
    units,
)
from stitchcuda.server.documents import Documents, path_of, uri_of

PIECES = [
    "a",
    "kernel<<<1, 2>>>(x);",
    "\n",
    "\r\n",
    "\r",
    "\f",
    "\u2028",
    "\x85",
    "\v",
    "é",
    "核",
    "😀",
    "",
    "\n\n",
    " ",
    "}",
]


class ClientText:
    """What an editor keeps: a list of code units, and lines found by walking over them."""

    def __init__(self, text: str, encoding: Encoding):
        self.encoding = encoding
        self.units = self.split(text)

    def split(self, text: str) -> list[bytes]:
        if self.encoding == "utf-8":
            raw = text.encode()
            return [raw[i : i + 1] for i in range(len(raw))]
        raw = text.encode("utf-16-le")
        return [raw[i : i + 2] for i in range(0, len(raw), 2)]

    @property
    def text(self) -> str:
        return b"".join(self.units).decode("utf-8" if self.encoding == "utf-8" else "utf-16-le")

    def lines(self) -> list[tuple[int, int]]:
        """(start, end without line end) of each line, in units."""
        pad = b"" if self.encoding == "utf-8" else b"\0"
        lines, start, i = [], 0, 0
        while i < len(self.units):
            if self.units[i] in (b"\r" + pad, b"\n" + pad):
                lines.append((start, i))
                pair = self.units[i] == b"\r" + pad and i + 1 < len(self.units) and self.units[i + 1] == b"\n" + pad
                i += 2 if pair else 1
                start = i
            else:
                i += 1
        lines.append((start, len(self.units)))
        return lines

    def is_boundary(self, unit: int) -> bool:
        if unit >= len(self.units):
            return True
        if self.encoding == "utf-8":
            return self.units[unit][0] & 0xC0 != 0x80
        return not 0xDC <= self.units[unit][1] <= 0xDF

    def random_change(self, rng: random.Random) -> Change:
        lines = self.lines()

        def place() -> tuple[Position, int]:
            number = rng.randrange(len(lines))
            start, end = lines[number]
            unit = rng.randint(start, end)
            while not self.is_boundary(unit):
                unit -= 1
            return Position(number, unit - start), unit

        (a, first), (b, last) = sorted((place(), place()), key=lambda p: p[1])
        if rng.random() < 0.7 and last - first > 12:
            b, last = a, first
        text = "".join(rng.choices(PIECES, k=rng.randint(0, 4)))
        self.units[first:last] = self.split(text)
        return Change(a, b, text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_mirror_equals_the_clients_text(encoding: Encoding) -> None:
    """5,000 random edits in all, single and in batches of 200 ranges."""
    rng = random.Random(20 if encoding == "utf-8" else 21)
    done = 0
    while done < 2500:
        client = ClientText("".join(rng.choices(PIECES, k=rng.choice((0, 3, 40, 120)))), encoding)
        store = Documents(encoding)
        document = store.open("untitled:a", "cuda", 0, client.text)
        for version in range(1, 26):
            batch = 200 if rng.random() < 0.02 else rng.choice((1, 1, 1, 2, 5))
            changes = [client.random_change(rng) for _ in range(batch)]
            changed = store.change("untitled:a", version, changes)
            assert changed is not None
            document = changed
            done += batch
            assert document.text == client.text
            starts = [document.lines.start(n) for n in range(len(document.lines))]
            assert starts == [LineIndex.of(document.encoded).start(n) for n in range(len(starts))]
            assert len(starts) == len(client.lines())
    for offset in range(len(document.encoded) + 1):
        if offset == len(document.encoded) or document.encoded[offset] & 0xC0 != 0x80:
            place = document.position(offset, encoding)
            if place.column <= units(document.line(place.line), encoding):
                assert document.offset(place, encoding) == offset


def test_edits_across_block_borders() -> None:
    rng = random.Random(3)
    text = "".join(f"line {i}\r\n" if i % 3 else f"line {i}\n" for i in range(3000))
    document = Document.of("u", "p", 0, text)
    for version in range(300):
        start = rng.randrange(len(document.encoded))
        end = min(start + rng.choice((0, 1, 2, 30, 4000)), len(document.encoded))
        new = rng.choice(("", "\n", "\r", "x", "\n" * 700, "ab\r\ncd"))
        change = Change(document.position(start, "utf-8"), document.position(end, "utf-8"), new)
        document, _ = document.changed([change], version, "utf-8")
        expected = LineIndex.of(document.encoded)
        assert len(document.lines) == len(expected)
        assert all(document.lines.start(n) == expected.start(n) for n in range(len(expected)))
        offsets = [0, len(document.encoded), *(rng.randrange(len(document.encoded) + 1) for _ in range(20))]
        assert [document.lines.line_at(o) for o in offsets] == [expected.line_at(o) for o in offsets]


def test_lines_end_only_where_the_protocol_says() -> None:
    document = Document.of("u", "p", 0, "a\fb\u2028c\x85d\ve\nf\r\ng\rh")
    assert [document.line(n).decode() for n in range(len(document.lines))] == ["a\fb\u2028c\x85d\ve", "f", "g", "h"]


@pytest.mark.parametrize(
    ("encoding", "column", "prefix"),
    [("utf-8", 6, "é😀"), ("utf-16", 3, "é😀"), ("utf-32", 2, "é😀"), ("utf-8", 4, "é"), ("utf-16", 2, "é")],
)
def test_columns(encoding: Encoding, column: int, prefix: str) -> None:
    """The last two lie inside the emoji: they mean its start."""
    document = Document.of("u", "p", 0, "é😀x\n")
    assert document.offset(Position(0, column), encoding) == len(prefix.encode())


def test_positions_outside_the_text_are_clamped() -> None:
    document = Document.of("u", "p", 0, "ab\r\ncd")
    assert document.offset(Position(0, 99), "utf-16") == 2
    assert document.offset(Position(1, 99), "utf-16") == 6
    assert document.offset(Position(9, 0), "utf-16") == 6
    assert document.position(99, "utf-16") == Position(1, 2)


def test_lone_surrogate_and_other_encodings_do_not_fail() -> None:
    document = Document.of("u", "p", 0, "a\ud800b")
    assert document.text == "a\ud800b"
    assert document.position(4, "utf-16") == Position(0, 2)
    latin = Document("u", "p", 0, "// gr\xfc\xdfe\nint x;".encode("latin-1"))
    assert latin.line(1) == b"int x;"
    assert latin.offset(Position(0, 99), "utf-16") == 8


def test_carry() -> None:
    assert carry((10, 20), [ByteEdit(0, 0, 5)]) == (15, 25)
    assert carry((10, 20), [ByteEdit(20, 25, 1)]) == (10, 20)
    assert carry((10, 20), [ByteEdit(12, 13, 0)]) is None
    assert carry((10, 20), [ByteEdit(0, 10, 0), ByteEdit(0, 0, 3)]) == (3, 13)


def test_hull_gives_what_stays_at_both_ends() -> None:
    assert hull([], 7) == (7, 0)
    rng = random.Random(5)
    for _ in range(300):
        before = Document.of("u", "p", 0, "0123456789" * 3)
        changes = []
        for _ in range(rng.randint(1, 4)):
            start = rng.randint(0, 20)
            end = start + rng.randint(0, 8)
            changes.append(Change(Position(0, start), Position(0, end), "x" * rng.randint(0, 5)))
        after, edits = before.changed(changes, 1, "utf-8")
        front, back = hull(edits, len(before.encoded))
        middle = after.encoded[front : len(after.encoded) - back]
        assert before.encoded[:front] + middle + before.encoded[len(before.encoded) - back :] == after.encoded
        assert len(middle) + front + back == len(after.encoded)


def test_store_ignores_what_does_not_fit() -> None:
    store = Documents()
    assert store.change("file:///x.cu", 2, [Change(None, None, "")]) is None
    assert store.close("file:///x.cu") is None
    before = store.open("file:///x.cu", "cuda", 5, "int x;").revision
    assert store.change("file:///x.cu", 4, [Change(None, None, "")]) is None
    assert store.change("file:///x.cu", 6, [Change(None, None, "int y;")]) is not None
    assert store.since("file:///x.cu", before) == (ByteEdit(0, 6, 6),)
    store.open("file:///x.cu", "cuda", 5, "int z;")
    assert store.since("file:///x.cu", before) is None


def test_paths_of_uris() -> None:
    assert path_of("file:///home/a%20b/x.cu") == "/home/a b/x.cu"
    assert path_of("file://localhost/home/x.cu") == "/home/x.cu"
    assert path_of("file:///home/x.inl", "cpp") == "/home/x.inl"  # as what includes it names it
    assert path_of("file:///home/tool", "python") == "/home/tool.py"
    # Such paths every call of the system refuses.
    assert path_of("file:///home/\ud800.cu") == "file:///home/\\ud800.cu"
    for nowhere in ("file:///home/%00.cu", "file://[::1/a.cu"):
        assert path_of(nowhere) == nowhere
    assert path_of("file:///home/%FF.cu") == "/home/\udcff.cu"
    assert path_of("untitled:Untitled-1", "cuda-cpp") == "untitled:Untitled-1.cu"
    assert uri_of("/home/a b/x.cu") == "file:///home/a%20b/x.cu"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_places_in_a_long_line(encoding: Encoding) -> None:
    """Forth and back, at every character around the steps in which it is counted."""
    line = "".join(random.Random(7).choice("abé核😀\u0301") for _ in range(9000))
    document = Document.of("file:///x", "/x", 1, f"é\n{line}\n")
    offset = len("é\n".encode())
    for character, column in zip(line, _columns_of(line, encoding), strict=True):
        if (offset + 8) % 1024 < 16:
            assert document.position(offset, encoding) == Position(1, column)
            assert document.offset(Position(1, column), encoding) == offset
        offset += len(character.encode())


def _columns_of(line: str, encoding: Encoding) -> list[int]:
    size = {"utf-8": lambda c: len(c.encode()), "utf-16": lambda c: 1 + (c > "\uffff"), "utf-32": lambda c: 1}[encoding]
    return [0, *itertools.accumulate(map(size, line[:-1]))]


def test_many_places_in_a_long_line_cost_little() -> None:
    document = Document.of("file:///x", "/x", 1, "é😀" * 170_000)  # a megabyte
    began = time.process_time()
    for number in range(600):
        document.position(number * 6 * 280, "utf-16")
    assert time.process_time() - began < 0.5
