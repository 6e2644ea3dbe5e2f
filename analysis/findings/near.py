"""Which code a misspelt one was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, codes: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """The codes that a word resembles most, the likeliest first; at most three. Case and underscores do not matter."""
    known = list(codes)
    plain = word.strip().lower().replace("_", "-").replace(" ", "-")
    if plain in known:
        return [plain]
    near = difflib.get_close_matches(plain, known, 3, cutoff)
    return near or [code for code in known if len(plain) > 3 and plain in code][:3]
