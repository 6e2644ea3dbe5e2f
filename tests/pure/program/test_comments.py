"""What is a comment in C++ text, and what only looks like one."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index.finality import words_between
from stitchcuda.analysis.syntax.comments import COMMENT_OR_LITERAL_BYTES, bytes_without_comments, without_comments


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a // b", "a  "),
        ("a /* b\n c */ d", "a   d"),
        ('"/* a" b "*/"', '"/* a" b "*/"'),
        ("'\"' /* a */ '\"'", "'\"'   '\"'"),
        ("u8'\"' /* a */ '\"'", "u8'\"'   '\"'"),
        ("case'\"': /* a */ case'\"':", "case'\"':   case'\"':"),
        ("'\\'' // a", "'\\''  "),
        ("1'000 /* it's */ + 0xA'B", "1'000   + 0xA'B"),
        ('R"(")" // a "', 'R"(")"  '),
        ('u8R"x(//)" )x" /* a */', 'u8R"x(//)" )x"  '),
    ],
)
def test_a_blank_for_each_comment(text: str, left: str) -> None:
    assert without_comments(text) == left
    assert bytes_without_comments(text.encode()) == left.encode()


@pytest.mark.parametrize(
    "text",
    [
        b"a = '\"'; static int x; b = '\"';",
        b"a = 1'000; static int x; b = 2'000;",
        b'a = R"(")"; static int x; b = R"(")";',
    ],
)
def test_code_between_literals_is_code(text: bytes) -> None:
    assert b"static int x" in COMMENT_OR_LITERAL_BYTES.sub(b"", text)


def test_a_quote_as_a_character_hides_no_name() -> None:
    table = b'Entry table[] = {{\'"\', "//", helper}};\n'
    assert b"helper" in words_between(table, [])
