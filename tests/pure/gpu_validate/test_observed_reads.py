"""What copies brought to the host: equal, or a subsequence of the baseline's when fewer copies were declared."""

from __future__ import annotations

import pytest
from stitchcuda.gpu_validate.observe.reads import ReadState, compare_reads, expect
from stitchcuda.gpu_validate.trace.model import HostRead


def reads(digests: str) -> list[HostRead]:
    """One read of 8 bytes a letter; "-" is one that could not be read."""
    return [HostRead(i, 8, "" if d == "-" else d) for i, d in enumerate(digests)]


@pytest.mark.parametrize(
    ("runs", "found", "may_drop", "state", "compared"),
    [
        (["abc"] * 3, "abc", False, ReadState.EQUAL, 3),
        (["abc"] * 3, "abx", False, ReadState.DIFFERENT, 0),
        (["abc"] * 3, "bac", False, ReadState.REORDERED, 0),
        (["abc"] * 3, "ac", False, ReadState.DIFFERENT, 0),
        (["abc"] * 3, "ac", True, ReadState.FEWER, 2),
        (["abc"] * 3, "c", True, ReadState.FEWER, 1),
        (["abc"] * 3, "ca", True, ReadState.DIFFERENT, 0),
        (["abc"] * 3, "ax", True, ReadState.DIFFERENT, 0),
        (["abc"] * 3, "", True, ReadState.UNKNOWN, 0),
        (["abc"] * 3, "abcc", True, ReadState.DIFFERENT, 0),
        (["abc"] * 3, "ab-", False, ReadState.UNKNOWN, 0),
        (["abc"] * 3, "a-", True, ReadState.UNKNOWN, 0),
        (["axc", "ayc", "azc"], "aqc", False, ReadState.EQUAL, 2),  # the second one varies in the baseline itself
        (["axc", "ayc", "azc"], "ac", True, ReadState.FEWER, 2),
        (
            ["axc", "ayc", "azc"],
            "cc",
            True,
            ReadState.FEWER,
            1,
        ),  # the varying one stands for anything, and is not counted
        (["ab", "abc"], "abc", False, ReadState.UNKNOWN, 0),
        (["x", "y"], "z", False, ReadState.EQUAL, 0),
        ([""], "", False, ReadState.EQUAL, 0),
    ],
)
def test_reads(runs: list[str], found: str, may_drop: bool, state: ReadState, compared: int) -> None:
    result = compare_reads(expect([reads(run) for run in runs]), reads(found), may_drop)
    assert (result.state, result.compared) == (state, compared)


def test_another_size_is_another_read() -> None:
    result = compare_reads(expect([reads("a")]), [HostRead(0, 16, "a")], True)
    assert result.state is ReadState.DIFFERENT and "16 bytes" in result.detail
