"""Literals: the values that C++ gives them, and broken ones never raise, whatever is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stitchcuda.analysis.program.cuda import literals

PIECES = ["\\x", "\\u", "\\U", "\\o{", "\\x{", "}", "\\u{", "\\N{", "\\", "\\\n", "\\0", "\\777", "\\8", "\\²", "\\٣", "d800", "DFFF", "1", "9" * 40,
          "a", "'", '"', "(", ")", "R", "L", "u8", "\ud800", "\x00", "é", "😀", "\n"]  # fmt: skip
NUMBERS = ["0", "1", "9", "x", "X", "b", "B", "'", ".", "e", "E", "p", "P", "+", "-", "_", "u", "L", "z", "f", "h", "bf16", "nan", "inf",
           "9" * 5000, "f" * 5000, "٣", "²", " ", "\x00"]  # fmt: skip
WRITTEN = st.lists(st.sampled_from(PIECES) | st.characters(), max_size=12).map("".join)


@given(st.sampled_from(["", "L", "u8", "R", "u8R"]), WRITTEN, st.sampled_from(["", '"', "'", ')"', '"s']))
def test_any_text_is_a_string_that_can_be_written_down(prefix: str, body: str, end: str) -> None:
    plain = body.encode("utf-8", "replace").decode()  # what is read from a file holds no lone surrogates
    literals.string(f'{prefix}"{plain}{end}').encode()
    literals.string(plain).encode()
    assert 0 <= literals.character(f"{prefix}'{plain}{end}") <= 0x10FFFF


@given(st.lists(st.sampled_from(NUMBERS) | st.characters(), max_size=12).map("".join))
def test_any_text_is_a_number_of_some_type_or_none(text: str) -> None:
    value = literals.number(text)
    assert value is None or isinstance(value, float) or 0 <= abs(value) < 1 << 64
    assert value is None or text.isascii()


@given(st.integers(0, (1 << 64) - 1), st.sampled_from(["", "u", "ULL", "l", "z", "uz"]))
def test_an_integer_is_its_value_in_every_base(value: int, suffix: str) -> None:
    for written in (
        str(value),
        f"{value:#x}",
        f"{value:#X}",
        f"{value:#b}",
        f"0{value:o}",
        f"{value:_}".replace("_", "'"),
    ):
        assert literals.number(written + suffix) == value


@given(st.text())
def test_what_is_escaped_is_what_it_was(value: str) -> None:
    kept = value.encode("utf-8", "replace").decode()
    for written in ("".join(f"\\U{ord(c):08x}" for c in kept), "".join(f"\\u{{{ord(c):x}}}" for c in kept)):
        assert literals.string(f'"{written}"') == kept


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r'"\x"', "x"),  # no digits
        (r'"\xg"', "xg"),
        (r'"\x41"', "A"),
        (r'"\101\60"', "A0"),
        (r'"\0"', "\0"),
        (r'"\u12"', "u12"),  # too short
        (r'"\u00e9"', "é"),
        (r'"\ud800"', "\ufffd"),  # half a pair
        (r'"\xd83d"', "\ufffd"),
        (r'"\UFFFFFFFF"', "\ufffd"),  # beyond Unicode
        (r'"\xffffffffffffffffff"', "\ufffd"),
        (r'"\8"', "8"),
        (r'"a\"b\\"', 'a"b\\'),
        ('"a\\\nb"', "ab"),  # a continued line
        ('"a\\\r\nb"', "ab"),
        ('"', ""),
        ('"abc', "abc"),
        ("", ""),
        ('u8"a"', "a"),
        ('R"(a\\x)"', "a\\x"),
        ('LR"d(a)"b)d"', 'a)"b'),
        ('R"(', ""),
    ],
)
def test_strings(written: str, value: str) -> None:
    assert literals.string(written) == value


@pytest.mark.parametrize(
    ("written", "code"),
    [("'a'", 97), (r"'\''", 39), ("'\"'", 34), (r"'\"'", 34), (r"'\0'", 0), (r"u8'\n'", 10), (r"'\x'", 120), ("''", 0), ("'", 0), (r"L'\u20ac'", 0x20AC)],
)  # fmt: skip
def test_characters(written: str, code: int) -> None:
    assert literals.character(written) == code


@pytest.mark.parametrize(
    "written",
    [
        "",
        "0x",
        "0b",
        "0b2",
        "08",
        "1e",
        "1e+",
        "1_000",
        "5_kb",
        "٣",
        "²",
        "1²",
        "0x1g",
        "1" * 30,
        "0x1" + "0" * 16,
        "9" * 5000,
    ],
)
def test_no_numbers(written: str) -> None:
    assert literals.number(written) is None
