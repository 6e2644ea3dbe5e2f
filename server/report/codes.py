"""Words that choose findings: codes, groups and `all`."""

from __future__ import annotations

from functools import cache

from stitchcuda.analysis.findings.finding import Group
from stitchcuda.analysis.findings.near import nearest
from stitchcuda.analysis.rules import ALL_CODES, BY_CODE

ALL = "all"


def unknown_word(word: str, *, groups: bool = True, measured: bool = True) -> str:
    """What is wrong with a word, as a sentence; "" when nothing is. `measured`: codes that only the GPU gives may be meant."""
    codes = ALL_CODES if measured else BY_CODE
    known = (*codes, *(group.value for group in Group), ALL) if groups else tuple(codes)
    if word in known:
        return ""
    if word in ALL_CODES:
        return f"{word} is not found in the source; `stitchcuda explain {word}` says where it comes from"
    near = nearest(word, known, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"the codes are {', '.join(BY_CODE)}"
    return f"no finding has the code {word!r}; {hint}"


@cache
def codes_of(words: tuple[str, ...]) -> frozenset[str]:
    """The codes that are meant, of those that the source gives."""
    named = set(words)
    return frozenset(r.code for r in BY_CODE.values() if not named.isdisjoint((ALL, r.code, r.group.value)))


DEFAULT_CODES = frozenset(rule.code for rule in BY_CODE.values() if rule.default)
