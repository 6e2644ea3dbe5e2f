"""A faster `__init__` for frozen dataclasses with slots: millions of them are made in one analysis.

The one that `dataclasses` writes calls `object.__setattr__` for each field, which looks the field up by its name. These
call the slots' own setters; arguments, defaults and the value made are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from types import FunctionType
from typing import Any, TypeVar

Made = TypeVar("Made")
Setter = Callable[[Any, Any], None]


def quick_init(cls: type[Made]) -> type[Made]:
    """Class decorator, above `@dataclass(frozen=True, slots=True)`; also to be called for a class that is made already.
    A compiled class is left as it is. TypeError for what it cannot do: defaults that are made anew, `__post_init__`, no slots, too many fields."""
    if not isinstance(cls.__init__, FunctionType):
        return cls
    listed = fields(cls)  # type: ignore[arg-type]
    if hasattr(cls, "__post_init__") or "__slots__" not in vars(cls) or not 0 < len(listed) <= len(_BY_COUNT):
        raise TypeError(
            f"{cls.__name__}: a dataclass with slots, up to {len(_BY_COUNT)} fields and nothing more is expected"
        )
    for each in listed:
        if each.default_factory is not MISSING or not each.init or each.kw_only:
            raise TypeError(f"{cls.__name__}.{each.name}: only plain fields are supported")
    plain = cls.__init__
    made: FunctionType = _BY_COUNT[len(listed) - 1](*[vars(cls)[each.name].__set__ for each in listed])
    made.__code__ = made.__code__.replace(co_varnames=("self", *[each.name for each in listed]))
    made.__defaults__ = tuple([each.default for each in listed if each.default is not MISSING])
    made.__annotations__ = plain.__annotations__
    made.__qualname__ = plain.__qualname__
    cls.__init__ = made  # type: ignore[method-assign]
    return cls


def _one(a: Setter) -> Any:
    def __init__(self: Any, p: Any) -> None:
        a(self, p)

    return __init__


def _two(a: Setter, b: Setter) -> Any:
    def __init__(self: Any, p: Any, q: Any) -> None:
        a(self, p)
        b(self, q)

    return __init__


def _three(a: Setter, b: Setter, c: Setter) -> Any:
    def __init__(self: Any, p: Any, q: Any, r: Any) -> None:
        a(self, p)
        b(self, q)
        c(self, r)

    return __init__


def _four(a: Setter, b: Setter, c: Setter, d: Setter) -> Any:
    def __init__(self: Any, p: Any, q: Any, r: Any, s: Any) -> None:
        a(self, p)
        b(self, q)
        c(self, r)
        d(self, s)

    return __init__


def _five(a: Setter, b: Setter, c: Setter, d: Setter, e: Setter) -> Any:
    def __init__(self: Any, p: Any, q: Any, r: Any, s: Any, t: Any) -> None:
        a(self, p)
        b(self, q)
        c(self, r)
        d(self, s)
        e(self, t)

    return __init__


def _six(a: Setter, b: Setter, c: Setter, d: Setter, e: Setter, f: Setter) -> Any:
    def __init__(self: Any, p: Any, q: Any, r: Any, s: Any, t: Any, u: Any) -> None:
        a(self, p)
        b(self, q)
        c(self, r)
        d(self, s)
        e(self, t)
        f(self, u)

    return __init__


def _seven(a: Setter, b: Setter, c: Setter, d: Setter, e: Setter, f: Setter, g: Setter) -> Any:
    def __init__(self: Any, p: Any, q: Any, r: Any, s: Any, t: Any, u: Any, v: Any) -> None:
        a(self, p)
        b(self, q)
        c(self, r)
        d(self, s)
        e(self, t)
        f(self, u)
        g(self, v)

    return __init__


def _eight(a: Setter, b: Setter, c: Setter, d: Setter, e: Setter, f: Setter, g: Setter, h: Setter) -> Any:
    def __init__(self: Any, p: Any, q: Any, r: Any, s: Any, t: Any, u: Any, v: Any, w: Any) -> None:
        a(self, p)
        b(self, q)
        c(self, r)
        d(self, s)
        e(self, t)
        f(self, u)
        g(self, v)
        h(self, w)

    return __init__


def _nine(a: Setter, b: Setter, c: Setter, d: Setter, e: Setter, f: Setter, g: Setter, h: Setter, i: Setter) -> Any:
    def __init__(self: Any, p: Any, q: Any, r: Any, s: Any, t: Any, u: Any, v: Any, w: Any, x: Any) -> None:
        a(self, p)
        b(self, q)
        c(self, r)
        d(self, s)
        e(self, t)
        f(self, u)
        g(self, v)
        h(self, w)
        i(self, x)

    return __init__


_BY_COUNT: tuple[Callable[..., Any], ...] = (_one, _two, _three, _four, _five, _six, _seven, _eight, _nine)
