"""`check --fix`: applies preferred fixes one after the other, each proved by a new analysis before it is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.findings.finding import Group
from stitchcuda.analysis.index import Index
from stitchcuda.server.report.rows import EditRow, FixRow, Row, rows

_LIMIT = 200
_SERIOUS = (Group.CORRECTNESS, Group.DEVICE)


@dataclass(frozen=True)
class Fixed:
    """`texts`: the files that changed. `rows`: what is left. `done`: what was fixed and how, each with its place in the text as it
    was then."""

    texts: dict[str, bytes]
    rows: tuple[Row, ...]
    done: tuple[tuple[Row, FixRow], ...]


def fix(index: Index, texts: dict[str, bytes], wanted: Callable[[Row], bool], writable: Callable[[str], bool]) -> Fixed:
    """Keeps a fix when its finding is gone and nothing as bad is new; undoes it otherwise. A repaired hazard may make a later wait
    or a comment needless, or add calls whose status is dropped like that of the calls around: no reason to undo it."""
    changed: dict[str, bytes] = {}
    current = dict(texts)
    known = rows(index.analyse())
    refused: set[str] = set()
    done: list[tuple[Row, FixRow]] = []
    for _ in range(_LIMIT):
        choice = _next(known, wanted, refused)
        if choice is None:
            break
        row, change = choice
        refused.add(row.fingerprint)
        if not all(writable(e.path) and e.path in current for e in change.edits):
            continue
        after = apply(current, change.edits)
        if after is None:
            continue
        for path, text in after.items():
            index.put(path, text)
        found = rows(index.analyse())
        if _better(known, found, row, wanted):
            current.update(after)
            changed.update(after)
            known = found
            done.append(choice)
            refused.discard(row.fingerprint)  # the next one that looks the same takes its name
        else:
            for path in after:
                index.put(path, current[path])
    index.analyse()
    return Fixed(changed, known, tuple(done))


def apply(texts: dict[str, bytes], edits: Sequence[EditRow]) -> dict[str, bytes] | None:
    """The files after the edits, or None when two of them overlap or one lies outside its file."""
    after: dict[str, bytes] = {}
    for path in dict.fromkeys(e.path for e in edits):
        text = texts[path]
        end = 0
        pieces = []
        for edit in sorted((e for e in edits if e.path == path), key=lambda e: (e.start, e.end)):
            if edit.start < end or edit.end > len(text):
                return None
            pieces += [text[end : edit.start], edit.text.encode()]
            end = edit.end
        after[path] = b"".join([*pieces, text[end:]])
    return after


def _next(known: tuple[Row, ...], wanted: Callable[[Row], bool], refused: set[str]) -> tuple[Row, FixRow] | None:
    for row in known:
        if row.fingerprint in refused or not wanted(row):
            continue
        for candidate in row.fixes:
            if candidate.preferred:
                return row, candidate
    return None


def _better(before: tuple[Row, ...], after: tuple[Row, ...], fixed: Row, wanted: Callable[[Row], bool]) -> bool:
    old = Counter((r.code, r.message) for r in before)
    new = Counter((r.code, r.message) for r in after)
    fresh = [r for r in after if (r.code, r.message) in new - old]
    worse = [r for r in fresh if r.group in _SERIOUS]
    if fixed.group not in _SERIOUS:
        worse += [r for r in fresh if r.group != Group.STYLE and wanted(r)]
    return new[fixed.code, fixed.message] < old[fixed.code, fixed.message] and not worse
