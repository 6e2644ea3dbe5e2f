"""Words of a request that no field came from and that are not mere manners: whoever reads it completely has to look at them."""

from __future__ import annotations

import re

from stitchcuda.analysis.contract.intent.reading import CJK, one_spelling
from stitchcuda.analysis.contract.intent.task import GENERIC, LEADING, POLITE, STOP, VERB
from stitchcuda.analysis.contract.types import Contract

_PIECE = re.compile(r"[^\n.,;!?:，。；、()\"]+")
_SAYS = re.compile(rf"[a-z0-9{CJK}]")


def unread(text: str, contract: Contract) -> tuple[str, ...]:
    """The words, clause by clause; empty when the contract that `text` was read into says all of it."""
    spelled = list(one_spelling(text))
    for evidence in contract.evidence:
        start, end = evidence.span
        spelled[start:end] = "\n" * (end - start)
    shown = "".join(spelled)
    for pattern in (VERB, STOP):
        shown = pattern.sub(lambda match: " " * len(match[0]), shown)
    found = []
    for piece in _PIECE.finditer(shown):
        left = _left(shown, piece.start(), piece.end())
        if any(_SAYS.match(shown[k]) for k in left):
            found.append(text[left[0] : left[-1] + 1].strip())
    return tuple(found)


def _left(shown: str, start: int, end: int) -> list[int]:
    """Where the characters of a clause stand that neither name the program as such nor lead to something."""
    left, at = [], start
    while at < end:
        ends = (match.end() for pattern in (POLITE, GENERIC, LEADING) if (match := pattern.match(shown, at, end)))
        past = max(ends, default=at)
        if past == at:
            if not shown[at].isspace():
                left.append(at)
            past = at + 1
        at = past
    return left
