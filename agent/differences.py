"""Where two sequences differ: what units, edits and their confinement are made of."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

Piece = TypeVar("Piece", bound=Hashable)


def differences(
    old: Sequence[Piece], new: Sequence[Piece], most: int | None = None
) -> Iterator[tuple[int, int, int, int]]:
    """Ranges `[a, b)` of `old` that become `[c, d)` of `new`, in order. What is equal at both ends is not compared again; beyond
    `most` pairs of pieces in between, all of that is one difference."""
    least = min(len(old), len(new))
    head = next((k for k in range(least) if old[k] != new[k]), least)
    tail = next((k for k in range(least - head) if old[-1 - k] != new[-1 - k]), least - head)
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    if most is not None and len(a) * len(b) > most:
        yield head, head + len(a), head, head + len(b)
        return
    for tag, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            yield head + i, head + j, head + k, head + m
