"""Texts from units: any choice of units that holds together is one well-defined version.

A run's units form a sequence, and each unit's edits count in the text after all earlier units, or after those that it names
(`on`: attempts at one thing are each made on what was best before them). To leave units out, edits are not moved by arithmetic
on offsets: each file is kept as pieces that remember which edit made them and which ones removed them, removed ones included,
so that a version is a matter of which pieces are shown.

A unit rests on (has as `parents`) every unit without which its edits would not say where they belong: one whose text it
changes or stands inside, one whose removal it spans or borders with an insertion, and the one that made the file.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stitchcuda.agent.units import TextEdit, Unit
from stitchcuda.analysis.syntax.text import LineIndex

_BASE = -1


class UnitError(ValueError):
    """Units that cannot be put together: overlapping edits, an edit outside its file, parents left out, an unknown id."""


class MissingParents(UnitError):
    """A choice that leaves out what it rests on. `missing` maps a chosen unit to the parents that are not chosen."""

    def __init__(self, missing: Mapping[str, tuple[str, ...]]) -> None:
        parts = (f"{unit} builds on {', '.join(parents)}" for unit, parents in missing.items())
        super().__init__(f"the chosen units do not stand alone: {'; '.join(parts)}. Choose these too")
        self.missing = dict(missing)


def unit_id(transform: str, edits: Sequence[TextEdit], on: Sequence[str] | None = None) -> str:
    """A hash of what the unit changes, in which text, and of the transform that made it: 16 hex digits."""
    h = hashlib.blake2b(digest_size=8)
    _feed(h, transform.encode())
    if on is not None:
        _feed(h, " ".join(on).encode())
    for edit in edits:
        for part in (edit.path.encode(), b"%d" % edit.start, b"%d" % edit.end, edit.text):
            _feed(h, part)
    return h.hexdigest()


def _feed(h: hashlib.blake2b, part: bytes) -> None:
    h.update(len(part).to_bytes(8, "little") + part)


def extend(
    base: Mapping[str, bytes], units: Sequence[Unit], drafts: Sequence[Unit], on: Sequence[str] | None = None
) -> tuple[Unit, ...]:
    """`units` followed by `drafts`, whose edits all count in the text after `units` (after those of `on`, if that is given) and
    do not overlap each other. Gives the drafts their place in the sequence (their edits count in the text after the draft
    before them), their id, and the parents that their edits need, beside those they have. A draft may name another draft as
    its parent by the id it came with.

    `base` holds the original text of every edited file that exists. Raises UnitError."""
    documents = _documents(base, units)
    done = list(units)
    under = None if on is None else tuple(on)
    before: list[TextEdit] = []
    renamed: dict[str, str] = {}
    for draft in drafts:
        edits = tuple(_after(edit, before) for edit in draft.edits)
        needed = documents.apply(len(done), edits, None if under is None else _positions(done, under))
        parents = dict.fromkeys(renamed.get(p, p) for p in draft.parents)
        parents.update(dict.fromkeys(done[k].id for k in sorted(needed)))
        identity = unit_id(draft.transform, edits, under)
        if draft.id:
            renamed[draft.id] = identity
        done.append(replace(draft, id=identity, parents=tuple(parents), edits=edits, on=under))
        under = None if under is None else (*under, identity)
        before += draft.edits
    check_sequence(done)
    return tuple(done)


def _after(edit: TextEdit, before: Sequence[TextEdit]) -> TextEdit:
    """Where an edit lies once the others, which were made for the same text, are done. Raises UnitError when they overlap."""
    shift = 0
    for other in before:
        if other.path != edit.path:
            continue
        if other.end <= edit.start:
            shift += len(other.text) - (other.end - other.start)
        elif other.start < edit.end:
            raise UnitError(f"{edit.path}: two edits overlap at bytes {edit.start} to {edit.end}")
    return replace(edit, start=edit.start + shift, end=edit.end + shift)


def check_sequence(units: Sequence[Unit]) -> None:
    """Raises UnitError unless ids are the hashes of their units, each occurs once, and parents come first."""
    known: set[str] = set()
    for unit in units:
        if unit.id != unit_id(unit.transform, unit.edits, unit.on):
            raise UnitError(f"unit {unit.id} is not what its id says: its edits were changed")
        if unit.id in known:
            raise UnitError(f"unit {unit.id} occurs twice")
        if strange := [p for p in (*unit.parents, *(unit.on or ())) if p not in known]:
            raise UnitError(f"unit {unit.id} builds on {', '.join(strange)}, which does not come before it")
        known.add(unit.id)


def missing_parents(units: Sequence[Unit], chosen: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Per chosen unit the parents that are not chosen; empty for a choice that holds together. Raises UnitError for an id
    that no unit has."""
    _must_be_known(units, chosen)
    wanted = set(chosen)
    missing = {u.id: tuple(p for p in u.parents if p not in wanted) for u in units if u.id in wanted}
    return {unit: parents for unit, parents in missing.items() if parents}


def with_parents(units: Sequence[Unit], chosen: Iterable[str]) -> tuple[str, ...]:
    """The choice with all that it rests on, in sequence. Raises UnitError for an id that no unit has."""
    wanted = set(chosen)
    _must_be_known(units, wanted)
    for unit in reversed(units):
        if unit.id in wanted:
            wanted.update(unit.parents)
    return tuple(u.id for u in units if u.id in wanted)


def _must_be_known(units: Sequence[Unit], chosen: Iterable[str]) -> None:
    known = {u.id for u in units}
    if strange := [c for c in chosen if c not in known]:
        raise UnitError(f"no unit has the id {', '.join(strange)}; the units are {', '.join(known) or 'none'}")


def compose(base: Mapping[str, bytes], units: Sequence[Unit], chosen: Collection[str]) -> dict[str, bytes]:
    """The text of every file that a chosen unit edits. `base` holds the original text of every edited file that exists.
    Raises MissingParents, UnitError."""
    if missing := missing_parents(units, chosen):
        raise MissingParents(missing)
    documents = _documents(base, units)
    wanted = _positions(units, chosen)
    paths = dict.fromkeys(e.path for k in sorted(wanted) for e in units[k].edits)
    return {path: documents.text(path, wanted) for path in paths}


def rebased(base: Mapping[str, bytes], units: Sequence[Unit], chosen: Collection[str]) -> tuple[Unit, ...]:
    """The chosen units as a sequence of their own: each unit's edits count in the text after the chosen units before it. They
    keep their ids, which name the edits of the whole sequence. Raises MissingParents, UnitError."""
    if missing := missing_parents(units, chosen):
        raise MissingParents(missing)
    documents = _documents(base, units)
    wanted = set(chosen)
    shown: set[int] = set()
    done = []
    for position, unit in enumerate(units):
        if unit.id not in wanted:
            continue
        edits = tuple(
            documents.place(edit, (position, number), frozenset(shown)) for number, edit in enumerate(unit.edits)
        )
        done.append(replace(unit, edits=edits, on=None))
        shown.add(position)
    return tuple(done)


@dataclass(frozen=True, slots=True)
class Change:
    """An edit of the original text, and the units that it comes from (ids, in sequence)."""

    edit: TextEdit
    units: tuple[str, ...]


def changes(base: Mapping[str, bytes], units: Sequence[Unit], chosen: Collection[str]) -> tuple[Change, ...]:
    """What leads from the original texts to the version of the chosen units, as edits that do not touch each other, file by
    file and from the start to the end of each. Raises MissingParents, UnitError."""
    if missing := missing_parents(units, chosen):
        raise MissingParents(missing)
    documents = _documents(base, units)
    wanted = _positions(units, chosen)
    paths = dict.fromkeys(e.path for k in sorted(wanted) for e in units[k].edits)
    return tuple(
        Change(edit, tuple(units[k].id for k in sorted(makers)))
        for path in paths
        for edit, makers in documents.changes(path, wanted)
    )


def edited(texts: Mapping[str, bytes], edits: Sequence[TextEdit]) -> dict[str, bytes]:
    """The files that the edits of one unit touch, after them; the edits count in `texts`. Raises UnitError."""
    documents = _Documents(texts)
    documents.apply(0, edits)
    return {path: documents.text(path, frozenset([0])) for path in dict.fromkeys(e.path for e in edits)}


def original_offset(
    base: Mapping[str, bytes], units: Sequence[Unit], path: str, offset: int, chosen: Collection[str] | None = None
) -> int:
    """The byte of the original text at which byte `offset` of the text after all units (after the chosen ones) stands: what a
    unit inserted stands where it was inserted. Raises UnitError."""
    documents = _documents(base, units)
    shown = frozenset(range(len(units))) if chosen is None else _positions(units, chosen)
    return documents.original_offset(path, offset, shown)


def original_line(
    base: Mapping[str, bytes], units: Sequence[Unit], path: str, line: int, chosen: Sequence[str] | None = None
) -> int:
    """The line (from 1) of the original at which a line of the text after all units (after the chosen ones) stands. Raises
    UnitError."""
    text = {**base, **compose(base, units, [u.id for u in units] if chosen is None else chosen)}.get(path, b"")
    lines = LineIndex.of(text)
    if not 1 <= line <= len(lines):
        return line
    offset = original_offset(base, units, path, lines.start(line - 1), chosen)
    return LineIndex.of(base.get(path, b"")).line_at(offset) + 1


# -------------------------------------------------------------------------------------------------------------- pieces

_Tag = tuple[int, int]  # position of the unit in the sequence, of the edit in the unit


_STAYS = frozenset[_Tag]()


@dataclass(slots=True)
class _Piece:
    """`gone` are the edits that removed it: several only when they were made in texts that leave each other out. A piece without
    text marks an edit that inserts nothing."""

    text: bytes
    made: _Tag
    gone: frozenset[_Tag] = _STAYS


def _documents(base: Mapping[str, bytes], units: Sequence[Unit]) -> _Documents:
    """With the edits of all units made, each in the text that it was made for."""
    documents = _Documents(base)
    for position, unit in enumerate(units):
        documents.apply(position, unit.edits, None if unit.on is None else _positions(units[:position], unit.on))
    return documents


def _positions(units: Sequence[Unit], chosen: Collection[str]) -> frozenset[int]:
    _must_be_known(units, chosen)
    wanted = set(chosen)
    return frozenset(k for k, unit in enumerate(units) if unit.id in wanted)


class _Documents:
    """All files, as pieces."""

    def __init__(self, base: Mapping[str, bytes]) -> None:
        self._base = base
        self._pieces: dict[str, list[_Piece]] = {}
        self._creator: dict[str, int] = {}  # of a file that the original tree does not have

    def apply(self, position: int, edits: Sequence[TextEdit], on: frozenset[int] | None = None) -> set[int]:
        """Makes the edits of a unit, which count in the text that the units `on` show (None: all before it); gives the positions
        of the units it rests on."""
        shown = frozenset(range(position)) if on is None else on
        needed: set[int] = set()
        # From the last to the first, so that the offsets of those still to come hold; of two at one place an insertion comes last
        # and so lands before what the other replaces. Equal insertions keep the order in which they are written.
        ordered = sorted(enumerate(edits), key=lambda item: (item[1].path, item[1].start, item[1].end, item[0]))
        for (_, first), (_, second) in itertools.pairwise(ordered):
            if first.path == second.path and first.end > second.start:
                raise UnitError(f"{first.path}: two edits of one unit overlap at byte {second.start}")
        for number, edit in reversed(ordered):
            if edit.path not in self._pieces:
                text = self._base.get(edit.path)
                self._pieces[edit.path] = [_Piece(text, (_BASE, 0))] if text else []
                if text is None:
                    self._creator[edit.path] = position
            needed.add(self._creator.get(edit.path, position))
            # The unit's own edits stand after this one in the text, so that they shift nothing.
            needed |= self._edit(self._pieces[edit.path], edit, (position, number), shown | {position})
        return needed & shown

    def _edit(self, pieces: list[_Piece], edit: TextEdit, tag: _Tag, shown: frozenset[int]) -> set[int]:
        if not 0 <= edit.start <= edit.end:
            raise UnitError(f"{edit.path}: bytes {edit.start} to {edit.end} are no range")
        first, last = _split(pieces, edit.start, edit, shown), _split(pieces, edit.end, edit, shown)
        if edit.start == edit.end:
            index, needed = _insertion_point(pieces, first, shown)
            pieces.insert(index, _Piece(edit.text, tag))
            return needed
        while not _text_shown(pieces[first], shown):  # removed text before the range is not part of it
            first += 1
        needed = set()
        for piece in pieces[first:last]:
            needed |= {piece.made[0], *(position for position, _ in piece.gone)}
            if _visible(piece, shown) or not _there(piece, shown):  # what a unit left out put there goes as well
                piece.gone |= {tag}
        pieces.insert(first, _Piece(edit.text, tag))
        return needed

    def text(self, path: str, shown: frozenset[int]) -> bytes:
        return b"".join(p.text for p in self._pieces[path] if _visible(p, shown))

    def changes(self, path: str, shown: frozenset[int]) -> Iterator[tuple[TextEdit, set[int]]]:
        """The edits of the original text that show these units, each with the units that made it."""
        start = end = 0
        text, makers = b"", set[int]()
        for piece in self._pieces[path]:
            ours = piece.made[0] == _BASE
            if ours and _visible(piece, shown) and piece.text:
                if makers:
                    yield TextEdit(path, start, end, text), makers
                start = end = end + len(piece.text)
                text, makers = b"", set[int]()
                continue
            if ours:
                end += len(piece.text)
                makers |= {position for position, _ in piece.gone} & shown if piece.text else set()
            elif piece.text and _visible(piece, shown):
                text += piece.text
                makers.add(piece.made[0])
        if makers:
            yield TextEdit(path, start, end, text), makers

    def original_offset(self, path: str, offset: int, shown: frozenset[int]) -> int:
        original = 0
        for piece in self._pieces.get(path, [_Piece(self._base.get(path, b""), (_BASE, 0))]):
            length = len(piece.text) if _visible(piece, shown) else 0
            ours = piece.made[0] == _BASE
            if length > offset:
                return original + (offset if ours else 0)
            offset -= length
            original += len(piece.text) if ours else 0
        return original

    def place(self, edit: TextEdit, tag: _Tag, shown: frozenset[int]) -> TextEdit:
        """The edit in the text of the units shown, its own unit not among them."""
        start = length = 0
        found = False
        for piece in self._pieces[edit.path]:
            found = found or piece.made == tag
            if not _visible(piece, shown):
                continue
            if tag in piece.gone:
                length += len(piece.text)
            elif not found:
                start += len(piece.text)
        return TextEdit(edit.path, start, start + length, edit.text)


def _there(piece: _Piece, shown: frozenset[int]) -> bool:
    """Whether the piece was made at all, with these units."""
    return piece.made[0] == _BASE or piece.made[0] in shown


def _visible(piece: _Piece, shown: frozenset[int]) -> bool:
    return _there(piece, shown) and not any(position in shown for position, _ in piece.gone)


def _split(pieces: list[_Piece], offset: int, edit: TextEdit, shown: frozenset[int]) -> int:
    """Cuts at an offset in the text shown; gives the index of the piece that follows the last one shown before it."""
    seen = 0
    after = 0
    for index, piece in enumerate(pieces):
        if seen == offset:
            return after
        if not _visible(piece, shown):
            continue
        if seen + len(piece.text) > offset:
            head, tail = piece.text[: offset - seen], piece.text[offset - seen :]
            pieces[index : index + 1] = [_Piece(head, piece.made, piece.gone), _Piece(tail, piece.made, piece.gone)]
            return index + 1
        seen += len(piece.text)
        after = index + 1
    if seen != offset:
        raise UnitError(f"{edit.path}: byte {offset} lies outside of the file, which has {seen}")
    return after


def _insertion_point(pieces: list[_Piece], index: int, shown: frozenset[int]) -> tuple[int, set[int]]:
    """Where to insert after piece `index - 1`, the last one shown, and the units without which that would be unknown: those
    that removed the text here (before it or after it?), and those inside whose text it stands. What follows a replacement's
    new text also follows the text that was replaced, so that needs no parent."""
    end = index
    while end < len(pieces) and not _text_shown(pieces[end], shown):
        end += 1
    gap = pieces[index:end]
    if index and gap and all(p.gone == {pieces[index - 1].made} for p in gap):
        index, gap = end, []
    needed = {position for p in gap for position, _ in (p.made, *p.gone)}
    left, right = pieces[:index], pieces[index:]
    inside = {p.made for p in left} & {p.made for p in right}
    inside |= {tag for p in left for tag in p.gone} & {tag for p in right for tag in p.gone}
    return index, needed | {made[0] for made in inside}


def _text_shown(piece: _Piece, shown: frozenset[int]) -> bool:
    return bool(piece.text) and _visible(piece, shown)
