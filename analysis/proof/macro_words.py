"""What a text names through macros: the words that a local declaration could give another meaning to.

Macros are replaced by their text where they are used, so a `#define SIZE (m * 4)` names whatever `m` is there. Every definition
in any file of the program counts, in all branches of `#if`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

_PASTES = "##"
_DEFINE = re.compile(
    rb"^[ \t]*\#[ \t]*define[ \t]+([A-Za-z_]\w*)(\((?:[^)\n\\]|\\\r?\n)*\))?((?:[^\n\\]|\\\r?\n|\\[^\n])*)",
    re.MULTILINE,
)
_WORD = re.compile(r"\w+")
_NO_CODE = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//.*|/\*.*?\*/')


@dataclass(frozen=True, slots=True)
class Reached:
    """The words of the macros that a text uses, and `around` them those of the text, from which macros may put names together."""

    words: frozenset[str]
    around: frozenset[str]

    def __contains__(self, name: str) -> bool:
        return name in self.words or (_PASTES in self.words and self._put_together(name))

    def _put_together(self, name: str) -> bool:
        ends = {0}
        for end in range(1, len(name) + 1):
            parts = [name[start:end] for start in ends]
            if any(part.isdecimal() or (part != name and part in self.around) for part in parts):
                ends.add(end)
        return len(name) in ends


class Macros:
    """The macros of a program. `texts` are its files by path."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._tables = [table for table in map(_macros, texts.values()) if table]

    def reached(self, tokens: Iterable[str]) -> Reached:
        """What the macros in a text name, at any depth; parameters are what stands where a macro is used, and not among it."""
        own = frozenset(word for token in tokens for word in _WORD.findall(token))
        found: set[str] = set()
        waiting = set(own)
        while waiting:
            word = waiting.pop()
            for table in self._tables:
                new = table.get(word, frozenset()) - found
                found |= new
                waiting |= new
        return Reached(frozenset(found), own | found)


@lru_cache(maxsize=1024)
def _macros(text: bytes) -> dict[str, frozenset[str]]:
    """The words of each macro's definitions, with `_PASTES` where it puts names together."""
    found: dict[str, frozenset[str]] = {}
    if b"define" not in text:
        return found
    for match in _DEFINE.finditer(text):
        name, head, body = (part.decode("utf-8", "replace") for part in (match[1], match[2] or b"", match[3]))
        body = _NO_CODE.sub(" ", re.sub(r"\\\r?\n", " ", body))
        named = frozenset(_WORD.findall(body)) - frozenset(_WORD.findall(head))
        if "##" in re.sub(r",\s*##\s*__VA_ARGS__", "", body):
            named |= {_PASTES}
        found[name] = found.get(name, frozenset()) | named
    return found
