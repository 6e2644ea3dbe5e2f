"""Where two texts of a file differ, told to a tree of the first: the parser then reads only those places again."""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Tree

_MOST = 32  # places
_LINES = 24  # of the old text that are looked for in the new one
_AHEAD = 4096  # bytes of the new text in which they are looked for
_ANCHOR = 48  # bytes that are the same again after a difference


@dataclass(frozen=True, slots=True)
class Difference:
    """The bytes `[start, end)` of the old text are `[new_start, new_end)` of the new one."""

    start: int
    end: int
    new_start: int
    new_end: int


def edited(tree: Tree, old: bytes, new: bytes) -> Tree:
    """A copy of the tree of `old` that knows where `new` is different."""
    made = tree.copy()
    for each in reversed(differences(old, new)):  # what stands before keeps its place
        start = _point(old, each.start)
        made.edit(
            each.start,
            each.end,
            each.start + each.new_end - each.new_start,
            start,
            _point(old, each.end),
            _moved(start, new[each.new_start : each.new_end]),
        )
    return made


def differences(old: bytes, new: bytes) -> list[Difference]:
    """Places that hold all that differs, in order. Everything between two of them is the same, byte for byte."""
    tail = _same(old, new, 0, 0, from_end=True)
    old_end, new_end = len(old) - tail, len(new) - tail
    found: list[Difference] = []
    i = j = 0
    while True:
        common = min(_same(old, new, i, j), old_end - i, new_end - j)
        i, j = i + common, j + common
        if i == old_end and j == new_end:
            return found
        again = _again(old, new, i, j, old_end, new_end) if len(found) < _MOST else None
        next_i, next_j = again or (old_end, new_end)
        found.append(Difference(i, next_i, j, next_j))
        i, j = next_i, next_j


def _again(old: bytes, new: bytes, i: int, j: int, old_end: int, new_end: int) -> tuple[int, int] | None:
    """Where both go on alike, at the start of a line."""
    at = i
    for _ in range(_LINES):
        at = old.find(b"\n", at, old_end) + 1
        if at <= 0 or at + _ANCHOR > old_end:
            return None
        there = new.find(old[at : at + _ANCHOR], j, min(new_end, j + _AHEAD))
        if there >= 0:
            return at, there
    return None


def _same(one: bytes, other: bytes, i: int, j: int, *, from_end: bool = False) -> int:
    """How many bytes are the same from `i` and `j` on, or at the ends."""
    low, high = 0, min(len(one) - i, len(other) - j)
    ends = len(one), len(other)
    while low < high:
        middle = (low + high + 1) // 2
        if from_end:
            same = one[ends[0] - middle : ends[0] - low] == other[ends[1] - middle : ends[1] - low]
        else:
            same = one[i + low : i + middle] == other[j + low : j + middle]
        low, high = (middle, high) if same else (low, middle - 1)
    return low


def _point(text: bytes, offset: int) -> tuple[int, int]:
    return text.count(b"\n", 0, offset), offset - (text.rfind(b"\n", 0, offset) + 1)


def _moved(point: tuple[int, int], piece: bytes) -> tuple[int, int]:
    """The point after some bytes that start at another."""
    lines = piece.count(b"\n")
    return point[0] + lines, len(piece) - piece.rfind(b"\n") - 1 if lines else point[1] + len(piece)
