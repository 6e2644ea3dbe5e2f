"""Reading JSON values with errors that name the field and the value."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class SchemaError(ValueError):
    """A JSON value does not have the documented form. `field` is its path, such as `bounds[0].unit`."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        shown = repr(value)
        super().__init__(
            f"{field or 'value'}: expected {expected}, found {shown if len(shown) <= 80 else shown[:77] + '...'}"
        )
        self.field = field
        self.value = value
        self.expected = expected


class MissingField(SchemaError):
    def __init__(self, field: str, expected: str) -> None:
        ValueError.__init__(self, f"{field}: missing, expected {expected}")
        self.field, self.value, self.expected = field, None, expected


_ABSENT = object()


class Reader:
    """One JSON object at the path `at`. Every field must be asked for before `done`, which refuses the rest."""

    def __init__(self, value: object, at: str, known: Collection[str]) -> None:
        if not isinstance(value, Mapping):
            raise SchemaError(at, value, "an object")
        self._fields: Mapping[str, Any] = value
        self._at = at
        for name in value:
            if name not in known:
                raise SchemaError(
                    self.path(str(name)), value[name], f"no such field (known: {', '.join(sorted(known))})"
                )

    def path(self, name: str) -> str:
        return f"{self._at}.{name}" if self._at else name

    def has(self, name: str) -> bool:
        return name in self._fields

    def _take(self, name: str, default: object, expected: str) -> Any:
        if name in self._fields:
            return self._fields[name]
        if default is _ABSENT:
            raise MissingField(self.path(name), expected)
        return default

    def text(self, name: str, default: object = _ABSENT) -> str:
        value = self._take(name, default, "a string")
        if not isinstance(value, str):
            raise SchemaError(self.path(name), value, "a string")
        return value

    def optional_text(self, name: str) -> str | None:
        value = self._take(name, None, "a string or null")
        if value is not None and not isinstance(value, str):
            raise SchemaError(self.path(name), value, "a string or null")
        return value

    def choice(self, name: str, allowed: Collection[str], default: object = _ABSENT) -> str:
        expected = "one of " + ", ".join(allowed)
        value = self._take(name, default, expected)
        if not isinstance(value, str) or value not in allowed:
            raise SchemaError(self.path(name), value, expected)
        return value

    def number(self, name: str, *, least: float | None = None, above: float | None = None) -> float:
        value = self._take(name, _ABSENT, "a number")
        return number(value, self.path(name), least=least, above=above)

    def integer(self, name: str, *, least: int, default: object = _ABSENT) -> int:
        value = self._take(name, default, f"an integer >= {least}")
        return integer(value, self.path(name), least)

    def optional_integer(self, name: str, *, least: int) -> int | None:
        value = self._take(name, None, f"an integer >= {least} or null")
        return None if value is None else integer(value, self.path(name), least)

    def items(self, name: str, read: Callable[[object, str], T], default: object = _ABSENT) -> tuple[T, ...]:
        value = self._take(name, default, "a list")
        if not isinstance(value, list | tuple):
            raise SchemaError(self.path(name), value, "a list")
        return tuple(read(item, f"{self.path(name)}[{k}]") for k, item in enumerate(value))

    def record(self, name: str, read: Callable[[object, str], T]) -> T:
        return read(self._take(name, _ABSENT, "an object"), self.path(name))

    def optional_record(self, name: str, read: Callable[[object, str], T]) -> T | None:
        value = self._take(name, None, "an object or null")
        return None if value is None else read(value, self.path(name))

    def schema(self, version: int) -> None:
        found = self._take("schema", _ABSENT, str(version))
        if isinstance(found, bool) or found != version:
            raise SchemaError(self.path("schema"), found, str(version))


def number(value: object, at: str, *, least: float | None = None, above: float | None = None) -> float:
    expected = "a finite number"
    if least is not None:
        expected += f" >= {least:g}"
    if above is not None:
        expected += f" > {above:g}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SchemaError(at, value, expected)
    if (least is not None and value < least) or (above is not None and value <= above):
        raise SchemaError(at, value, expected)
    return value


def integer(value: object, at: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SchemaError(at, value, f"an integer >= {least}")
    return value


def text(value: object, at: str) -> str:
    if not isinstance(value, str):
        raise SchemaError(at, value, "a string")
    return value


def one_of(allowed: Collection[str]) -> Callable[[object, str], str]:
    def read(value: object, at: str) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise SchemaError(at, value, "one of " + ", ".join(allowed))
        return value

    return read
