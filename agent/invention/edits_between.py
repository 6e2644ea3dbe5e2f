"""The edits that lead from one text to another, line by line: what a reviewer wants to see of a version that was written in
several steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from stitchcuda.agent.differences import differences
from stitchcuda.agent.units import TextEdit

_MOST = 4_000_000  # pairs of lines that are compared; beyond, what differs is one edit


def edits_between(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[TextEdit, ...]:
    """From the texts `before` to those of `after`; files that `before` does not have are made. The same every time."""
    return tuple(
        edit for path in sorted(after) if before.get(path) != after[path] for edit in _edits(path, before, after)
    )


def _edits(path: str, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[TextEdit]:
    old, new = (side.get(path, b"").splitlines(keepends=True) for side in (before, after))
    offsets = list(itertools.accumulate((len(line) for line in old), initial=0))
    changed = differences(old, new, _MOST)
    edits = [TextEdit(path, offsets[a], offsets[b], b"".join(new[c:d])) for a, b, c, d in changed]
    return edits or [TextEdit(path, 0, 0, b"")]  # an empty file that is made
