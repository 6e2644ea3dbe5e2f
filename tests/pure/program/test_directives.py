"""Directives are found as by looking at every line."""

from __future__ import annotations

import random
import re
import time

import pytest
from stitchcuda.analysis.index import shared
from stitchcuda.analysis.syntax.directives import directives
from stitchcuda.server.sources import QUOTED_INCLUDE

PIECES = [
    b"#include", b" # include ", b'"a.h"', b"<b.h>", b"include", b"\n", b"\r\n", b"\\\n", b"  ", b"\t#", b"//", b"x",
    b'#include "c.cuh"', b"#define include", b"/*", b"*/",
]  # fmt: skip


@pytest.mark.parametrize("pattern", [QUOTED_INCLUDE, shared._INCLUDE], ids=["quoted", "any"])
def test_the_same_as_in_all_lines(pattern: re.Pattern[bytes]) -> None:
    chance = random.Random(7)
    found = 0
    for _ in range(3000):
        text = b"".join(chance.choices(PIECES, k=chance.randrange(30)))
        plain = [m.span() for m in pattern.finditer(text)]
        assert [m.span() for m in directives(pattern, b"include", text)] == plain, text
        found += len(plain)
    assert found > 500


def test_one_line_of_nothing_but_the_word_takes_no_longer_than_others() -> None:
    text = b"include " * 200_000
    began = time.process_time()
    assert list(directives(QUOTED_INCLUDE, b"include", text)) == []
    assert time.process_time() - began < 1.0
