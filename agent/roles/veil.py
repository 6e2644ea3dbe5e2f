"""What may not be sent stays unsaid: names and paths of files that are not among those that may be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stitchcuda.agent.roles.situation import Brief

_WORD = re.compile(rb"[A-Za-z_]\w*")
HIDDEN = "(not sent)"


@dataclass(frozen=True)
class Veil:
    """`paths` and `names` occur only in files that may not be sent."""

    paths: frozenset[str]
    names: frozenset[str]

    def __call__(self, text: str) -> str:
        """The text without them."""
        for path in sorted(self.paths, key=len, reverse=True):
            text = re.sub(rf"(?<![\w/.-]){re.escape(path)}(?![\w/-])", HIDDEN, text)
        return re.sub(r"[A-Za-z_]\w*", lambda m: HIDDEN if m[0] in self.names else m[0], text)


def veil_of(brief: Brief) -> Veil:
    """What the analysis knows from files whose text is not in the brief. A name that a sent file holds, too, is no secret."""
    hidden = [path for path in brief.analysis.sources if path not in brief.texts]
    if not hidden:
        return Veil(frozenset(), frozenset())
    said = _words(brief.texts.values())
    program = brief.analysis.program
    modules = [program.modules[path] for path in hidden if path in program.modules]
    declared = {f.name for m in modules for f in m.functions} | {g.name for m in modules for g in m.globals}
    declared |= {part for m in modules for record in m.records for part in record.name.split("::")}
    distinctive = {word for word in _words(brief.analysis.sources[path] for path in hidden) if _distinctive(word)}
    return Veil(frozenset(hidden), frozenset((declared | distinctive) - said))


def _words(texts: Iterable[bytes]) -> set[str]:
    return {word.decode() for text in texts for word in _WORD.findall(text)}


def _distinctive(word: str) -> bool:
    """A name that is no English word and none of CUDA's: it says what the hidden code does."""
    camel = word[:1].islower() and word != word.lower()
    return ("_" in word.strip("_") or camel) and not word.startswith(("cuda", "cu", "__"))
