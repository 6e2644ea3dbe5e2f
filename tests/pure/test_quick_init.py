"""Frozen dataclasses that are made fast are the same values."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest
from stitchcuda.analysis.quick_init import quick_init


@dataclass(frozen=True, slots=True)
class Plain:
    span: tuple[int, int]
    name: str
    parts: tuple[int, ...] = ()
    other: Plain | None = None


@quick_init
@dataclass(frozen=True, slots=True)
class Quick:
    span: tuple[int, int]
    name: str
    parts: tuple[int, ...] = ()
    other: Plain | None = None


def test_the_values_are_those_of_a_plain_dataclass() -> None:
    made = Quick((1, 2), "a", other=Plain((0, 0), "b"))
    assert repr(made) == repr(Plain((1, 2), "a", other=Plain((0, 0), "b"))).replace("Plain", "Quick", 1)
    assert made == Quick(span=(1, 2), name="a", parts=(), other=Plain((0, 0), "b"))
    assert hash(made) == hash(Plain((1, 2), "a", other=Plain((0, 0), "b")))
    assert replace(made, name="c") == Quick((1, 2), "c", (), Plain((0, 0), "b"))
    assert pickle.loads(pickle.dumps(made)) == made
    assert inspect.signature(Quick) == inspect.signature(Plain)


def test_it_stays_frozen_and_asks_for_its_arguments() -> None:
    made = Quick((1, 2), "a")
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError, match="name"):
        Quick((1, 2))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="wrong"):
        Quick((1, 2), "a", wrong=1)  # type: ignore[call-arg]


def test_what_it_cannot_do_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Anew:
        parts: list[int] = field(default_factory=list)

    @dataclass(frozen=True, slots=True)
    class After:
        name: str

        def __post_init__(self) -> None:
            pass

    @dataclass(frozen=True)
    class NoSlots:
        name: str

    for each in (Anew, After, NoSlots):
        with pytest.raises(TypeError):
            quick_init(each)
