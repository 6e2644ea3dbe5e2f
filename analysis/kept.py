"""What was found out about an object, kept for as long as the object is there.

For results that are worth keeping between analyses: a function's body is the same object until its text changes, and goes with
the last program that holds it. A plain dictionary would keep every body that was ever typed.
"""

from __future__ import annotations

from typing import Generic, TypeVar
from weakref import ref

Value = TypeVar("Value")


class Life:
    """Lasts as long as the object that holds it as `_life`: one of a compiled class, which cannot be referred to weakly itself."""

    __slots__ = ("__weakref__",)


class KeptWith(Generic[Value]):
    """Values by object, which is compared by identity and can be referred to weakly. A value must not refer to its object."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[object], Value]] = {}

    def get(self, of: object) -> Value | None:
        known = self._known.get(id(of))
        return known[1] if known is not None and known[0]() is _referable(of) else None

    def keep(self, of: object, value: Value) -> Value:
        """Gives the value back."""
        number, known = id(of), self._known

        def gone(which: ref[object]) -> None:
            if known.get(number, (None,))[0] is which:
                del known[number]

        known[number] = (ref(_referable(of), gone), value)
        return value

    def clear(self) -> None:
        self._known.clear()

    def __len__(self) -> int:
        return len(self._known)


def _referable(of: object) -> object:
    return getattr(of, "_life", of)
