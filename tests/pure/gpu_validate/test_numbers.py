"""Buffers of numbers under a tolerance: what is near, what is not, and what nobody can tell. All back ends find the same."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stitchcuda.analysis.contract.types import Contract, TensorSpec, Tolerance
from stitchcuda.gpu_validate.observe.array_numbers import numpy_back_end
from stitchcuda.gpu_validate.observe.contents import Kind, Reference, kinds, references
from stitchcuda.gpu_validate.observe.elements import ELEMENTS, Element, Noise, Rule, element_of
from stitchcuda.gpu_validate.observe.numbers import BackEnd, back_ends, compare
from stitchcuda.gpu_validate.observe.plain_numbers import PlainBackEnd
from stitchcuda.gpu_validate.trace.model import HostRead

PLAIN: BackEnd = PlainBackEnd()
ARRAYS = numpy_back_end()
RELATIVE, ABSOLUTE = Tolerance("relative", rtol=1e-3), Tolerance("absolute", atol=1e-3)
NAN, INF = math.nan, math.inf
F32, F64, F16, BF16 = (ELEMENTS[name] for name in ("float32", "float64", "float16", "bfloat16"))


def pack(element: Element, *values: float) -> bytes:
    if not element.code:
        words = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
        return struct.pack(f"<{len(values)}H", *(word >> 16 for word in words))
    return struct.pack(f"<{len(values)}{element.code}", *values)


def near(
    element: Element, before: list[float], after: list[float], tolerance: Tolerance, row: int | None = None
) -> bool | None:
    return compare(element, [pack(element, *before)], pack(element, *after), tolerance, row, True, [PLAIN]).near


@pytest.mark.parametrize(
    ("element", "before", "after", "tolerance", "expected"),
    [
        (F32, [1.0, -2.0], [1.0009, -2.0019], RELATIVE, True),
        (F32, [1.0, -2.0], [1.0011, -2.0], RELATIVE, False),
        (F32, [1.0, 1e6], [1.0, 1e6 + 500], RELATIVE, True),
        (F32, [1e6, 1.0], [1e6, 1.5], RELATIVE, False),  # a large neighbour lends nothing
        (F32, [0.0], [1e-30], RELATIVE, False),
        (F32, [0.0, 1e-30], [-0.0, 5e-4], ABSOLUTE, True),
        (F32, [1e6], [1e6 + 500], ABSOLUTE, False),
        (F64, [1.0], [1.0 + 2e-3], ABSOLUTE, False),
        (F64, [1e308], [-1e308], RELATIVE, False),
        (F32, [NAN, 1.0], [NAN, 1.0005], RELATIVE, True),
        (F32, [NAN, 1.0], [1.0, NAN], RELATIVE, False),
        (F32, [INF, 1.0], [INF, 1.0005], RELATIVE, True),
        (F32, [INF], [-INF], RELATIVE, False),
        (F32, [INF], [3e38], Tolerance("absolute", atol=1e39), False),
        (F32, [3e38], [INF], RELATIVE, False),
        (F16, [1.0, 65504.0], [1.0, 65472.0], RELATIVE, True),
        (F16, [1.0], [1.01], RELATIVE, False),
        (BF16, [1.0], [1.0078125], Tolerance("relative", rtol=1e-2), True),
        (BF16, [1.0], [1.0078125], RELATIVE, False),
        (ELEMENTS["int32"], [1000000], [1000001], RELATIVE, False),
        (ELEMENTS["uint8"], [255, 3], [255, 4], Tolerance("absolute", atol=5.0), False),
    ],
)
def test_numbers_are_near_or_not(
    element: Element, before: list[float], after: list[float], tolerance: Tolerance, expected: bool
) -> None:
    assert near(element, before, after, tolerance) is expected


def test_the_evidence_has_the_largest_differences() -> None:
    answer = compare(F32, [pack(F32, 1, 2, 0, 4)], pack(F32, 1, 2.5, 0.25, 4), RELATIVE, None, True, [PLAIN])
    assert answer.evidence == {"back_end": "python", "dtype": "float32", "elements": 4, "different": 2, "max_absolute": 0.5,
                               "max_relative": 0.25}  # fmt: skip
    assert "2 of 4" in answer.what and "first at 1" in answer.what


def test_complex_numbers_are_compared_by_their_parts() -> None:
    element = ELEMENTS["complex64"]
    assert (
        compare(element, [pack(F32, 1, 2)], pack(F32, 1, 2.001), RELATIVE, None, True, [PLAIN]).evidence["elements"]
        == 1
    )
    assert compare(element, [pack(F32, 1, 2, 3)], pack(F32, 1, 2, 4), RELATIVE, None, True, [PLAIN]).near is None


@pytest.mark.parametrize(
    ("before", "after", "k", "row", "expected"),
    [
        ([1, 9, 3, 4, 8, 2], [1.5, 8, 3, 4, 8.5, 1], 1, 3, True),
        ([1, 9, 3, 4, 8, 2], [9, 1, 3, 4, 8, 2], 1, 3, False),
        ([1, 9, 3, 4, 8, 2], [1, 9, 3, 4, 2, 8], 1, 3, False),  # the second row
        ([1, 9, 3, 4], [1, 3, 9, 4], 2, 4, False),
        ([1, 9, 5, 4], [1, 5, 9, 4], 2, 4, True),  # the same two, the other way round
        ([1, 9, 3, 4], [0, 0, 0, 0], 1, 4, None),  # everything is the largest
        ([5, 5, 3, 4], [5, 6, 3, 4], 1, 4, None),
        ([5, 5, 3, 4], [5, 5, 3, 4], 1, 4, True),  # the same bits
        ([1, 2], [2, 1], 2, 2, None),
        ([1, 9, NAN], [1, 9, 2], 1, 3, None),
        ([1, 9, 3, 4], [1, 9, 3, 4.5], 1, None, None),  # rows that nobody knows
    ],
)
def test_the_largest_of_every_row(
    before: list[float], after: list[float], k: int, row: int | None, expected: bool | None
) -> None:
    assert near(F32, before, after, Tolerance("top_k", k=k), row) is expected


def test_whole_numbers_have_no_ranks() -> None:
    assert near(ELEMENTS["int32"], [1, 9], [2, 9], Tolerance("top_k", k=1), 2) is False


def noisy(candidate: float, tolerance: Tolerance = RELATIVE) -> bool | None:
    """A sum of about 100 that varies by 1 between runs of the original, beside small numbers that do not."""
    runs = [pack(F32, 100 + noise, 1e-3, 1e-3) for noise in (0.0, 1.0, 0.5)]
    return compare(F32, runs, pack(F32, candidate, 1e-3, 1e-3), tolerance, None, True, [PLAIN]).near


def test_what_runs_of_the_original_differ_by_is_allowed_and_twice_that() -> None:
    assert noisy(101.9) is True
    assert noisy(105) is None  # neither noise nor certainly another result
    assert noisy(150) is None  # the original's own runs are outside of the tolerance: it may be no result at all
    assert noisy(150, Tolerance("relative", rtol=2e-2)) is False  # they are within it, and this is not


def test_noise_of_large_numbers_is_none_of_small_ones() -> None:
    runs = [pack(F32, 100 + noise, 1e-3) for noise in (0.0, 1.0)]
    assert compare(F32, runs, pack(F32, 100, 2e-3), Tolerance("relative", rtol=2e-2), None, True, [PLAIN]).near is False


def test_what_does_not_look_like_the_type_is_not_decided_unless_the_source_says_so() -> None:
    counts = [struct.pack("<2i", 5, 70), struct.pack("<2i", 6, 70)]  # two whole numbers, said to be float32
    for tolerance in (RELATIVE, ABSOLUTE):
        assert compare(F32, counts[:1], counts[1], tolerance, None, False, [PLAIN]).near is None
    minus = [struct.pack("<i", -1), struct.pack("<i", -2)]  # both a NaN
    assert compare(F32, minus[:1], minus[1], ABSOLUTE, None, False, [PLAIN]).near is None


VALUES = st.one_of(
    st.floats(width=32),
    st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-20, 1e-42, 3e38, NAN, INF, -INF]),
    st.integers(-9, 9),
)


@st.composite
def buffers(draw: st.DrawFn) -> tuple[Element, list[bytes]]:
    """Up to three buffers that have much in common."""
    element = draw(st.sampled_from([F32, F64, BF16, F16, ELEMENTS["int32"], ELEMENTS["uint8"]]))
    count = draw(st.sampled_from([4, 12]))
    if not element.floating:
        values = st.integers(0, 9)
    elif element is F16:
        values = st.floats(width=16)  # type: ignore[assignment]
    else:
        values = VALUES  # type: ignore[assignment]
    first = [draw(values) for _ in range(count)]
    out = [first]
    for _ in range(2):
        other = list(first)
        for at in draw(st.lists(st.integers(0, count - 1), max_size=4)):
            other[at] = draw(values)
        out.append(other)
    return element, [pack(element, *values) for values in out]


@pytest.mark.skipif(ARRAYS is None, reason="no numpy")
@given(buffers(), st.sampled_from([0.0, 1e-6, 0.5]), st.sampled_from([0.0, 1e-6, 2.0]), st.integers(1, 4))
def test_numpy_finds_what_the_standard_library_finds(
    made: tuple[Element, list[bytes]], rtol: float, atol: float, k: int
) -> None:
    assert ARRAYS is not None
    element, (one, two, three) = made
    rule = Rule(rtol, atol)
    assert ARRAYS.nearness(element, one, two, rule, Noise()) == PLAIN.nearness(element, one, two, rule, Noise())
    if element.floating:
        noise = PLAIN.noise(element, [one, two])
        assert ARRAYS.noise(element, [one, two]) == noise
        if noise is not None:
            assert ARRAYS.nearness(element, one, three, rule, noise) == PLAIN.nearness(element, one, three, rule, noise)
        assert ARRAYS.ranks(element, [one, two], three, k, 4) == PLAIN.ranks(element, [one, two], three, k, 4)


@given(buffers(), st.floats(0, 1))
def test_a_buffer_is_near_itself_and_never_near_what_is_beyond(made: tuple[Element, list[bytes]], rtol: float) -> None:
    element, (one, two, _) = made
    assert PLAIN.nearness(element, one, one, Rule(rtol), Noise()).different == 0
    found = PLAIN.nearness(element, one, two, Rule(rtol), Noise())
    assert 0 <= found.far == found.beyond <= found.different <= found.elements
    assert (found.at >= 0) == (found.beyond > 0)


def test_chunks_have_the_right_indices() -> None:
    size = 50_000
    before, after = [1.0] * size, [1.0] * size
    after[40_000] = 2.0
    for back_end in filter(None, (PLAIN, ARRAYS)):
        found = back_end.nearness(F32, pack(F32, *before), pack(F32, *after), Rule(1e-3), Noise())
        assert (found.elements, found.different, found.at) == (size, 1, 40_000)


def test_too_much_for_the_standard_library_is_not_decided() -> None:
    large = PlainBackEnd.most + 4
    if ARRAYS is None:
        assert compare(F32, [bytes(large)], bytes(large), RELATIVE, None, True).near is None
    assert [b.name for b in back_ends(8)[0]][-1] == "python" and "python" not in [b.name for b in back_ends(large)[0]]


# ---------------------------------------------------------------------------------------------------- what a read holds


def of(*sizes: int) -> list[HostRead]:
    return [HostRead(i, size, f"{i}") for i, size in enumerate(sizes)]


def test_an_output_with_a_shape_stands_for_the_reads_of_its_size() -> None:
    contract = Contract(outputs=(TensorSpec("y", (2, 4), "float32"), TensorSpec("n", (3,), "int32")))
    logits, number, other = kinds(of(32, 12, 8), contract, [None] * 3)
    assert (logits.element, logits.row, logits.sure) == (F32, 4, False)
    assert number.element == ELEMENTS["int32"] and other.element is None


def test_an_output_without_a_shape_stands_for_the_only_size_that_is_left() -> None:
    contract = Contract(outputs=(TensorSpec("output", None, "float32"),))
    assert kinds(of(32, 32), contract, [None, None])[1].element == F32
    assert [k.element for k in kinds(of(32, 4), contract, [None, None])] == [None, None]
    one, other = kinds(of(32, 4), contract, [None, ELEMENTS["int32"]])
    assert one.element == F32 and (other.element, other.sure) == (ELEMENTS["int32"], True)


def test_a_shape_gives_the_rows_of_what_the_source_types() -> None:
    contract = Contract(outputs=(TensorSpec("y", (2, 4)), TensorSpec("n", (9, 3), "int32")))
    assert [(k.element, k.row) for k in kinds(of(32, 16), contract, [F32, F32])] == [(F32, 4), (F32, None)]
    assert kinds(of(48), Contract(outputs=(TensorSpec("y", ("n", 4)),)), [F32])[0].row == 4


def test_what_the_contract_and_the_source_say_differently_is_not_decided() -> None:
    contract = Contract(outputs=(TensorSpec("y", (8,), "float32"),))
    assert kinds(of(32), contract, [ELEMENTS["int32"]])[0].why == "the contract says float32, the source int32"
    assert kinds(of(32), Contract(inputs=contract.outputs), [None])[0].element is None  # an input is no output
    assert element_of("fp8") is None and element_of("FP16") == F16


def test_contents_that_were_not_kept_are_not_decided() -> None:
    (reference,) = references([[HostRead(0, 4, "a", contents=pack(F32, 1))]] * 3, [Kind(F32, None, True)])
    assert reference.answer(HostRead(0, 4, "a"), RELATIVE).near is True
    assert reference.answer(HostRead(0, 4, "b"), RELATIVE).near is None
    assert reference.answer(HostRead(0, 4, "b", contents=pack(F32, 1.0001)), RELATIVE).near is True
    assert reference.answer(HostRead(0, 4, "b"), RELATIVE).near is True  # known from before
    lost = Reference(frozenset({"a"}), None, Kind(F32))
    assert lost.answer(HostRead(0, 4, "c", contents=pack(F32, 1)), RELATIVE).near is None
