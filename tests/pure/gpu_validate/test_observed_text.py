"""What varies between runs of the baseline is masked by token; all else must come out the same."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.contract.types import Tolerance
from stitchcuda.gpu_validate.observe.text import compare, learn

BITWISE = Tolerance()
RELATIVE = Tolerance("relative", rtol=1e-3)


def differs(runs: list[str], candidate: str, tolerance: Tolerance = BITWISE, ignore: tuple[str, ...] = ()) -> bool:
    return bool(compare(learn(runs, tolerance, ignore), candidate).differences)


@pytest.mark.parametrize(
    ("runs", "same", "other"),
    [
        # a time that varies; the result beside it is still compared
        (["t 1.25 ms sum 7", "t 11.5 ms sum 7", "t 0.98 ms sum 7"], "t 0.1 ms sum 7", "t 0.1 ms sum 8"),
        # a pointer, and a column that shifts with the width of a number
        (["p 0x7f01 n  9\nok", "p 0x7f02 n 10\nok"], "p 0xffff n 100\nok", "p 0xffff n 100\nFAILED"),
        # a number of progress lines that varies
        (["start\nstep 1\nstep 2\nsum 5", "start\nstep 1\nsum 5"], "start\nsum 5", "start\nstep 1\nsum 6"),
        # a progress bar, redrawn by carriage returns
        (["a 1\ra 2\ra 3\ndone 4", "a 1\ra 3\ndone 4"], "a 3\ndone 4", "a 3\ndone 5"),
        # words that vary, and a different number of tokens in the line
        (
            ["host abc up 1 min 3 s end 2", "host abc up 59 s end 2"],
            "host abc up 2 h 1 s end 2",
            "host abc up 9 s end 3",
        ),
        # two varying places
        (["x\na 1\nkeep 3\nb\ny", "x\nkeep 3\nb\nb\ny"], "x\na 1\na 1\nkeep 3\nb\ny", "x\nkeep 4\nb\ny"),
        # line ends do not matter, values do
        (["a 1\r\nb 2\r\n", "a 1\nb 2\n"], "a 1\nb 2", "a 1\nb"),
    ],
)
def test_only_what_varies_is_masked(runs: list[str], same: str, other: str) -> None:
    assert not differs(runs, same)
    assert differs(runs, other)


def test_a_missing_and_an_additional_line_are_differences() -> None:
    runs = ["one 1\ntwo 2\n"] * 3
    assert differs(runs, "one 1\n")
    assert differs(runs, "one 1\ntwo 2\nthree 3\n")
    (difference,) = compare(learn(runs, BITWISE), "one 1\ntwo 5").differences
    assert (difference.line, difference.expected, difference.found) == (2, "two 2", "two 5")


def test_everything_masked_counts_as_nothing_compared() -> None:
    result = compare(learn(["12.5 ms", "13.1 ms"], BITWISE), "99.0 ms")
    assert (result.differences, result.compared) == ((), 0)
    assert result.masked > 0


def test_words_are_no_numbers_but_a_program_s_own_check_counts() -> None:
    assert compare(learn(["Done."] * 3, BITWISE), "Done.").compared == 0
    assert compare(learn(["Test PASSED"] * 3, BITWISE), "Test PASSED").compared == 1
    assert differs(["Test PASSED"] * 3, "Test FAILED")


def test_tolerance_is_for_fractions_not_for_counts() -> None:
    assert not differs(["loss 1.0000 class 1000"], "loss 1.0005 class 1000", RELATIVE)
    assert differs(["loss 1.0000 class 1000"], "loss 1.0000 class 1001", RELATIVE)
    assert differs(["loss 1.0000"], "loss 1.0005", BITWISE)
    assert differs(["loss 1.0000"], "loss nan", RELATIVE)
    assert not differs(["loss 1.000"], "loss 1.004", Tolerance("absolute", atol=0.005))
    assert differs(["loss 1.000"], "loss 1.006", Tolerance("absolute", atol=0.005))


def test_a_result_that_varies_within_the_tolerance_is_still_compared() -> None:
    runs = ["sum 2.0001", "sum 2.0002", "sum 2.0000"]
    assert not differs(runs, "sum 2.0010", RELATIVE)
    assert differs(runs, "sum 2.5", RELATIVE)
    assert not differs(runs, "sum 2.0010", BITWISE)  # masked: the baseline does not repeat it bit by bit


@pytest.mark.parametrize("found", ["sum 2.5", "sum 1.9", "sum nan", "sum 0.0", "sum wrong"])
def test_a_mask_does_not_hide_another_result(found: str) -> None:
    runs = ["sum 2.0001", "sum 2.0002", "sum 2.0000"]
    (difference,) = compare(learn(runs, BITWISE), found).differences
    assert difference.far
    assert differs([f"{r} n 4" for r in runs], f"{found} n 5")  # and hides no plain difference beside it


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        (["sum 2.0001", "sum 2.0002"], "sum 2.0015"),
        (["residual 1.2e-7", "residual 3.1e-7"], "residual 4e-9"),
        (["elapsed 2.0001", "elapsed 2.0002"], "elapsed 1.1"),
        (["wrote 2.0001 in 2.0002 s", "wrote 2.0001 in 2.0003 s"], "wrote 2.0001 in 1.5 s"),
        (["pid 31417", "pid 31418"], "pid 40000"),
        (["at 0x7ffe1000", "at 0x7ffe1001"], "at 0x1000"),
        (["up 3 min", "up 4 min"], "up ? min"),
    ],
)
def test_what_may_well_vary_more_than_it_did_is_no_difference(runs: list[str], found: str) -> None:
    assert not differs(runs, found)


def test_differences_come_before_what_is_only_doubtful() -> None:
    lines = [f"v{k} took 2 s" for k in range(9)] + ["sum 3"]
    other = [f"v{k} took 1 s" for k in range(9)] + ["sum 4"]
    assert not compare(learn(["\n".join(lines)] * 3, BITWISE), "\n".join(other)).differences[0].timing


@pytest.mark.parametrize(
    "line", ["took 0.1 s", "Elapsed: 3", "rate 12 GB/s", "60 fps", "speedup 2", "0.2 ms per frame"]
)
def test_an_unvarying_time_is_no_failure_but_not_equal_either(line: str) -> None:
    faster = line.translate(str.maketrans("0123", "1234"))
    (difference,) = compare(learn([line] * 3, BITWISE), faster).differences
    assert difference.timing


@pytest.mark.parametrize("line", ["sum 3", "class 12 score 0.5", "n = 1 items", "energy 1.5 J"])
def test_a_plain_result_never_reads_as_a_time(line: str) -> None:
    (difference,) = compare(learn([line] * 3, BITWISE), line.translate(str.maketrans("0123", "1234"))).differences
    assert not difference.timing


def test_what_the_user_ignores_is_not_compared() -> None:
    assert not differs(["seed 3 sum 4"] * 3, "seed 9 sum 4", ignore=(r"seed \d+",))
    assert differs(["seed 3 sum 4"] * 3, "seed 9 sum 5", ignore=(r"seed \d+",))
