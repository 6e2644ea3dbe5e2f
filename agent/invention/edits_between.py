"""The edits that lead from one text to another, line by line: what a reviewer wants to see of a version that was written in
several steps."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

from stitchcuda.agent.units import TextEdit

_MOST = 4_000_000  # pairs of lines that are compared; beyond, what differs is one edit


def edits_between(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[TextEdit, ...]:
    """From the texts `before` to those of `after`; files that `before` does not have are made. The same every time."""
    return tuple(
        edit for path in sorted(after) if before.get(path) != after[path] for edit in _edits(path, before, after)
    )


def _edits(path: str, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[TextEdit]:
    old, new = (side.get(path, b"").splitlines(keepends=True) for side in (before, after))
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    offsets = [0]
    for line in old:
        offsets.append(offsets[-1] + len(line))
    if len(inner_old) * len(inner_new) > _MOST:
        changed = [(0, len(inner_old), 0, len(inner_new))]
    else:
        matcher = SequenceMatcher(None, inner_old, inner_new, autojunk=False)
        changed = [(a, b, c, d) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    edits = [TextEdit(path, offsets[head + a], offsets[head + b], b"".join(inner_new[c:d])) for a, b, c, d in changed]
    return edits or [TextEdit(path, 0, 0, b"")]  # an empty file that is made
