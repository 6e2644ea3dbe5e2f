"""Comprehensions do what they do once for each element, whatever is made of what they give."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index

HEAD = """import cupy as cp
def work(x):
    return cp.dot(x, x)
xs = [cp.zeros(10), cp.zeros(10)]
"""


@pytest.mark.parametrize(
    "line",
    [
        "ys = [work(x) for x in xs]",
        "ys = [float(work(x)) for x in xs]",
        "ys = [float(work(x)) for x in xs if x is not None]",
        "print([work(x) for x in xs])",
        "total = sum(work(x) for x in xs)",
        "ys = list(work(x) for x in xs)",
        "print(max(float(work(x)) for x in xs))",
    ],
)
def test_each_element_is_worked_on_once(line: str) -> None:
    index = Index(strict=True)
    index.put("a.py", (HEAD + line + "\n").encode())
    (found,) = index.analyse().timelines
    assert [op.api for op in found.ops].count("cupy.dot") == 2
