"""What a text uses of a kind that is watched: two texts are compared by these."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """One use. What a file had before may stay, a new one is refused. `key` is equal for what is the same in both texts."""

    kind: str
    key: str
    line: int
    what: str
