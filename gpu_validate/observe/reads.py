"""What device-to-host copies brought: the baseline's sequence of contents against the candidate's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from stitchcuda.gpu_validate.observe.numbers import Answer
from stitchcuda.gpu_validate.trace.model import HostRead

Agrees = Callable[
    [int, int], Answer | None
]  # read of the baseline, read of the candidate; None: only digests are compared


class ReadState(StrEnum):
    EQUAL = "equal"
    FEWER = "fewer"  # a subsequence, as the change declared
    DIFFERENT = "different"
    REORDERED = "reordered"  # the same contents in another order: which buffer got which is not known
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Expected:
    """The baseline's reads: the bytes of each and its digest, None where it varied between runs or could not be read."""

    reads: tuple[tuple[int, str | None], ...]
    problem: str = ""  # why nothing may be concluded


@dataclass(frozen=True, slots=True)
class ReadResult:
    """`compared` counts the candidate's reads whose contents were compared; `at` is the index of the first different one.
    `by_contents`: the difference is one of numbers, not of digests. `other`: not decided, and not what the baseline brings each
    time."""

    state: ReadState
    compared: int
    detail: str = ""
    at: int = -1
    by_contents: bool = False
    other: bool = False


def expect(runs: Sequence[Sequence[HostRead]]) -> Expected:
    """What several runs of the baseline agree on."""
    if len({len(run) for run in runs}) > 1:
        return Expected((), f"the baseline's own runs read {_numbers(runs)} buffers back")
    out: list[tuple[int, str | None]] = []
    for together in zip(*runs, strict=True):
        if len({read.bytes for read in together}) > 1:
            return Expected((), "the sizes of the buffers that the baseline reads back vary between its runs")
        digests = {read.digest for read in together}
        out.append((together[0].bytes, digests.pop() if len(digests) == 1 and "" not in digests else None))
    return Expected(tuple(out))


def compare_reads(
    expected: Expected, found: Sequence[HostRead], may_drop: bool, agrees: Agrees = lambda wanted, got: None
) -> ReadResult:
    """Compares one run of the candidate. `may_drop`: the change declared that it copies less. `agrees` is asked about reads whose
    digests differ."""
    if expected.problem:
        return ReadResult(ReadState.UNKNOWN, 0, expected.problem)
    got = [(read.bytes, read.digest or None) for read in found]
    wanted = list(expected.reads)
    if wanted and not got:
        return ReadResult(ReadState.UNKNOWN, 0, "it reads no buffer back any more, so that none can be compared")
    if len(got) == len(wanted):
        wrong = next((i for i, (a, b) in enumerate(zip(wanted, got, strict=True)) if not _fits(a, b)), None)
        lost = next((i for i, (a, b) in enumerate(zip(wanted, got, strict=True)) if a[1] and not b[1]), None)
        if wrong is None and lost is not None:
            return _unread(lost, got[lost])
        if wrong is not None and Counter(wanted) == Counter(got):
            return ReadResult(ReadState.REORDERED, 0, "the same contents came back in another order", wrong)
        return _by_contents(wanted, got, agrees)
    if len(got) > len(wanted) or not may_drop:
        return ReadResult(
            ReadState.DIFFERENT, 0, f"{len(got)} buffers were read back, the baseline reads {len(wanted)}"
        )
    return _subsequence(wanted, got, agrees)


def _by_contents(wanted: list[tuple[int, str | None]], got: list[tuple[int, str | None]], agrees: Agrees) -> ReadResult:
    """Read by read. The first one that differs is told; where none does, the first that was not decided."""
    compared, undecided = 0, None
    for i, (one, other) in enumerate(zip(wanted, got, strict=True)):
        if one[1] and one == other:
            compared += 1
            continue
        answer = agrees(i, i) if one[0] == other[0] and other[1] else None
        if answer is None and not _fits(one, other):
            return ReadResult(ReadState.DIFFERENT, 0, _difference(one, other, i), i)
        if answer is None and one[1]:
            undecided = undecided or _unread(i, other)
        elif answer is not None and answer.near is False:
            return ReadResult(ReadState.DIFFERENT, 0, f"read {i + 1} {answer.what}", i, True)
        elif answer is not None and answer.near is None:
            what, other_contents = f"read {i + 1} {answer.what}", one[1] is not None
            undecided = undecided or ReadResult(ReadState.UNKNOWN, 0, what, i, other=other_contents)
        compared += answer is not None
    return undecided or ReadResult(ReadState.EQUAL, compared)


def _subsequence(wanted: list[tuple[int, str | None]], got: list[tuple[int, str | None]], agrees: Agrees) -> ReadResult:
    """Each read must be found, in order. One that varies in the baseline could stand for anything of its size, so equal known
    contents are preferred, from the end: what stays after a change is the later part of what was read. A read with other contents
    is held against the last one of its size that it could be; which one it is, is not certain, so it is never called wrong."""
    at, compared = len(wanted), 0
    for i in range(len(got) - 1, -1, -1):
        if got[i][1] is None:
            return _unread(i, got[i])
        known = next((k for k in range(at - 1, -1, -1) if got[i][1] is not None and wanted[k] == got[i]), None)
        place = (
            known if known is not None else next((k for k in range(at - 1, -1, -1) if _fits(wanted[k], got[i])), None)
        )
        if place is None:
            place = next((k for k in range(at - 1, -1, -1) if wanted[k][0] == got[i][0]), None)
            answer = None if place is None else agrees(place, i)
            if answer is not None and answer.near:
                compared += 1
                at = place if place is not None else at
                continue
            if answer is not None:
                steady = place is not None and wanted[place][1] is not None
                return ReadResult(ReadState.UNKNOWN, 0, f"read {i + 1} {answer.what}", i, other=steady)
            what = f"read {i + 1} brought contents that the baseline never reads there ({got[i][0]} bytes)"
            return ReadResult(ReadState.DIFFERENT, 0, what, i)
        compared += known is not None
        at = place
    return ReadResult(ReadState.FEWER, compared, f"{len(got)} of the baseline's {len(wanted)} reads")


def _unread(at: int, got: tuple[int, str | None]) -> ReadResult:
    return ReadResult(
        ReadState.UNKNOWN, 0, f"the contents of read {at + 1} ({got[0]} bytes) could not be read in time", at
    )


def _fits(wanted: tuple[int, str | None], got: tuple[int, str | None]) -> bool:
    return wanted[0] == got[0] and (wanted[1] is None or got[1] is None or wanted[1] == got[1])


def _difference(wanted: tuple[int, str | None], got: tuple[int, str | None], at: int) -> str:
    if wanted[0] != got[0]:
        return f"read {at + 1} has {got[0]} bytes, the baseline's has {wanted[0]}"
    return f"read {at + 1} ({got[0]} bytes) brought other contents than in the baseline"


def _numbers(runs: Sequence[Sequence[HostRead]]) -> str:
    numbers = [str(len(run)) for run in runs]
    return f"{', '.join(numbers[:-1])} and {numbers[-1]}"
