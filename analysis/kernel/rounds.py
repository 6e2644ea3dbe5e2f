"""Rounds of a loop with a known end that need not be walked, since they only repeat those before with other numbers.

Two rounds in a row are compared. When all variables went on by the same step twice, and everything that was decided was
decided alike and stays so, then the rounds that follow do what these do, at places further on: they are written down
without being walked, as far as shared memory and barriers go, the last one in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stitchcuda.analysis.kernel.arithmetic import Step
from stitchcuda.analysis.kernel.lanes import ZERO, Form, number
from stitchcuda.analysis.kernel.model import Access, Barrier, Event, Mark, Mask, Memory
from stitchcuda.analysis.kernel.values import Cell, Value, wrapped
from stitchcuda.analysis.quick_init import quick_init


@quick_init
@dataclass(frozen=True, slots=True)
class Round:
    """The end of a round. `values` are of the variables that the loop has set until then; `steps` what was decided and
    computed in it, other than by adding and multiplying."""

    values: dict[Cell, Value]
    steps: Sequence[Step]
    active: Mask
    exits: tuple[Mask, Mask, Mask]
    events: Sequence[Event]
    marks: Sequence[Mark]
    guards: int
    elements: bool  # it has made elements of an array that was there before


@quick_init
@dataclass(frozen=True, slots=True)
class Course:
    """How a loop goes on: the variables that change with what a round adds to them, those of which nothing is known but
    that they change, and the margins that change but were decided alike."""

    moving: tuple[tuple[Cell, Value, Value], ...]  # before and after the last round
    loose: tuple[tuple[Cell, Value, Value], ...]
    margins: tuple[tuple[Step, Form], ...]
    events: tuple[tuple[Event, Form, Form | None], ...]  # of the last round, with what a round adds to place and value


def course(start: Mapping[Cell, Value], begun: int, first: Round, second: Round) -> Course | None:
    """None when the rounds are not alike. `start`: the variables before them;
    `begun`: those that were born later are of a round."""
    if first.elements or second.elements or first.active != second.active or first.exits != second.exits:
        return None
    if first.guards != second.guards or len(first.marks) != len(second.marks):
        return None
    margins = _alike(first.steps, second.steps)
    events = _repeated(first.events, second.events) if margins is not None else None
    if margins is None or events is None:
        return None
    moving, loose = [], []
    for cell, c in second.values.items():
        b = first.values.get(cell)
        if b is None:
            continue  # of one of these rounds
        if c is b or c == b:
            continue
        if cell.born < begun and _moves(start[cell], b, c):
            moving.append((cell, b, c))
        elif _is_loose(b, c):
            loose.append((cell, b, c))
        else:
            return None
    return Course(tuple(moving), tuple(loose), margins, events)


def _alike(first: Sequence[Step], second: Sequence[Step]) -> tuple[tuple[Step, Form], ...] | None:
    if len(first) != len(second):
        return None
    margins: list[tuple[Step, Form]] = []
    for b, c in zip(first, second, strict=True):
        if b.what != c.what or b.yes != c.yes or b.no != c.no:
            return None
        if (b.left is c.left or b.left == c.left) and (b.right is c.right or b.right == c.right):
            continue
        if b.right != c.right:
            return None
        if c.what in ("<", "=="):
            margins.append((c, c.left - b.left))
        elif c.what in ("/", "%"):
            by, divisor = (c.left - b.left).exact, c.right.constant
            if by is None or not divisor:
                return None
            if by % divisor if isinstance(by, int) else not by.multiple_of(divisor):
                return None
        else:
            return None
    return tuple(margins)


def _repeated(first: Sequence[Event], second: Sequence[Event]) -> tuple[tuple[Event, Form, Form | None], ...] | None:
    if len(first) != len(second):
        return None
    out: list[tuple[Event, Form, Form | None]] = []
    for b, c in zip(first, second, strict=True):
        if isinstance(b, Access) and isinstance(c, Access):
            if not _of_one_kind(b, c):
                return None
            by = ZERO if c.offset.unknown else c.offset - b.offset
            value = None if b.value is None or c.value is None else c.value - b.value
            out.append((c, by, value))
        elif isinstance(b, Barrier) and isinstance(c, Barrier):
            if (b.site, b.kind, b.lanes, b.alive, b.mask) != (c.site, c.kind, c.lanes, c.alive, c.mask):
                return None
            out.append((c, ZERO, None))
        else:
            return None
    return tuple(out)


def _of_one_kind(b: Access, c: Access) -> bool:
    return (
        b.site == c.site
        and b.mode is c.mode
        and b.lanes == c.lanes
        and b.buffer == c.buffer
        and b.field == c.field
        and b.size == c.size
        and len(b.guards) == len(c.guards)
    )


def stands(event: Event) -> bool:
    """It counts in rounds that are not walked."""
    return isinstance(event, Barrier) or event.buffer.memory is Memory.SHARED


def moved(event: Event, at: int, by: Form, value: Form | None, rounds: int, commits: int) -> Event:
    """The event so many rounds later."""
    if isinstance(event, Barrier):
        return replace(event, at=at)
    times = number(rounds)
    further = by * times if by.terms else by
    more = value * times if value is not None else None
    return Access(
        at,
        event.site,
        event.buffer,
        event.mode,
        event.lanes,
        event.offset + further if further is not None else event.offset,
        event.size,
        event.guards,
        event.field,
        event.value + more if event.value is not None and more is not None else None,
        event.calls,
        event.certain,
        event.update,
        event.volatile,
        event.loops,
        event.group + commits * rounds if event.group >= 0 else event.group,
        event.atomic,
    )


def _moves(a: Value, b: Value, c: Value) -> bool:
    if len(b.places) != len(c.places) or len(a.places) != len(b.places):
        return False
    same = _fixed(a) == _fixed(b) == _fixed(c)
    return same and all(_steady(x, y, z) for x, y, z in zip(_numbers(a), _numbers(b), _numbers(c), strict=True))


def _fixed(value: Value) -> Value:
    return replace(value, number=None, places=tuple([replace(p, offset=None) for p in value.places]))


def _numbers(value: Value) -> list[Form | None]:
    return [value.number, *(p.offset for p in value.places)]


def _steady(x: Form | None, y: Form | None, z: Form | None) -> bool:
    if x is None or y is None or z is None:
        return x is y is z
    return z - y == y - x


def _is_loose(b: Value, c: Value) -> bool:
    """A number that is made of what is not known: a sum of what was loaded."""
    return (
        b.number is not None
        and c.number is not None
        and c.number.exact is None
        and not (b.places or c.places)
        and b.decision is c.decision is None
    )


def later(cell: Cell, before: Value, after: Value, rounds: int) -> Value | None:
    """The value after so many more rounds; None when it does not fit the variable."""
    times = number(rounds)
    moved = replace(
        after,
        number=_later(before.number, after.number, times),
        places=tuple(
            [
                replace(p, offset=_later(q.offset, p.offset, times))
                for q, p in zip(before.places, after.places, strict=True)
            ]
        ),
    )
    if moved.number is not None and not cell.type.pointer and wrapped(moved.number, cell.type.name) != moved.number:
        return None
    return moved


def _later(before: Form | None, after: Form | None, times: Form) -> Form | None:
    if before is None or after is None:
        return after
    by = (after - before) * times
    return after + by if by is not None else None
