"""What a proposed edit may touch, and what it may not bring in. Decided from tokens: comments and strings are no code.

Only what is new counts: an item that the same file had before, word for word, is not held against the edit. What is allowed is
listed (`known_names.py`), so that what nobody thought of is refused. This is the first of several walls and no sandbox: a version that
passes it runs with the user's rights, in a copy, with limits and, where the system allows it, without the network (docs/trust.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.agent import versions
from stitchcuda.agent.invention.brought_in import brought_in
from stitchcuda.agent.invention.declared import Declared, declared, together
from stitchcuda.agent.invention.definitions import definitions, host_values
from stitchcuda.agent.invention.surroundings import Surroundings, surroundings_of
from stitchcuda.agent.invention.touched import file_outside, interposed, parts_outside, shadowed
from stitchcuda.agent.roles.situation import Scope
from stitchcuda.agent.units import TextEdit
from stitchcuda.agent.versions import UnitError
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.syntax.text import LineIndex

KINDS = (
    "scope", "file", "size", "syntax", "include", "directive", "macro", "attribute", "assembly", "hidden", "name", "path", "check",
    "interpose", "process", "network", "environment", "loading", "signal", "timer", "thread", "output", "device",
)  # fmt: skip
MOST_ADDED = 200_000  # bytes by which a version may grow
MOST_TOLD = 20


@dataclass(frozen=True, slots=True)
class Violation:
    """Why an edit is refused. `kind` is one of KINDS; `line` counts from 1 in the text after the edits, 0 for a whole file;
    `what` is one sentence, written for the model too."""

    kind: str
    path: str
    line: int
    what: str


def violations(
    texts_before: Mapping[str, bytes],
    edits: Sequence[TextEdit],
    scope: Scope,
    analysis_before: Analysis,
    most: int | None = MOST_TOLD,
) -> tuple[Violation, ...]:
    """Everything that the edits may not do, the first `most`; empty when they stay inside. Only what is new counts."""
    around = surroundings_of(texts_before, analysis_before)
    found: list[Violation] = []
    inside: list[TextEdit] = []
    refused: set[str] = set()
    for edit in edits:
        outside = file_outside(edit.path, scope, texts_before, around)
        if outside is None:
            inside.append(edit)
        elif edit.path not in refused:
            refused.add(edit.path)
            found.append(Violation(outside.kind, edit.path, outside.line, outside.what))
    try:
        after = versions.edited({p: texts_before[p] for p in {e.path for e in inside} & texts_before.keys()}, inside)
    except UnitError as error:
        return (*found, Violation("scope", inside[0].path, 0, f"the edits do not fit the text: {error}"))
    grown = sum(len(text) - len(texts_before.get(path, b"")) for path, text in after.items())
    if grown > MOST_ADDED:
        return (*found, Violation("size", inside[0].path, 0, f"the edits add {grown} bytes, more than {MOST_ADDED}"))
    names = frozenset(path for path in after if path not in texts_before)
    around.paths |= names
    around.values = frozenset().union(*(host_values(texts_before[p]) for p in after if p in texts_before))
    declares = together(declared(text) for text in after.values())
    for path, text in after.items():
        found += _in_file(path, texts_before.get(path), text, scope, around, declares)
    return tuple(dict.fromkeys(found))[:most]


def _in_file(
    path: str, before: bytes | None, after: bytes, scope: Scope, around: Surroundings, declares: Declared
) -> list[Violation]:
    parsed = declared(after)
    if parsed.error_bytes > (declared(before).error_bytes if before is not None else 0):
        what = "the new text cannot be parsed here: write it plainer, or correct it"
        return [Violation("syntax", path, parsed.error_line, what)]
    found = [Violation(item.kind, path, item.line, item.what) for item in brought_in(before, after, around, declares)]
    if before is None:
        outside = list(interposed(definitions(after), LineIndex.of(after)))
        if any(d.name == "main" for d in definitions(after)):
            found.append(Violation("scope", path, 0, "a new file has no main"))
    else:
        outside = list(parts_outside(before, after, scope, around))
    outside += shadowed(declared(before or b""), parsed)
    return [*(Violation(o.kind, path, o.line, o.what) for o in outside), *found]
