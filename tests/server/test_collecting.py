"""When the analysis process looks for unreachable cycles."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from stitchcuda.server.collecting import collect_all, collect_new


class Node:
    """Part of a cycle."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def left_by_edits(count: int) -> weakref.ref[Node]:
    node = Node()
    for _ in range(count):
        Node()
    return weakref.ref(node)


def test_what_edits_leave_is_taken_when_it_is_much() -> None:
    few = left_by_edits(100)
    collect_new()
    assert few() is not None
    many = left_by_edits(60_000)
    collect_new()
    assert few() is None and many() is None


def test_what_was_read_is_not_walked_over_before_somebody_has_time() -> None:
    kept = [Node() for _ in range(600_000)]
    garbage = left_by_edits(10)
    collect_new()
    assert garbage() is not None and gc.get_count()[0] < 1_000
    collect_all()
    assert garbage() is None and len(kept) == 600_000
