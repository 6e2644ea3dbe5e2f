"""Something that a text brings in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """Something that a file has and a new one may not bring. `key` is equal for what is the same in both texts."""

    kind: str
    key: str
    line: int
    what: str
