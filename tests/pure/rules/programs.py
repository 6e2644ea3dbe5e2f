"""What is found in whole programs, and programs in which one line makes the difference."""

from __future__ import annotations

from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.index import Index


def hazards_in(text: str, also: str = "") -> set[str]:
    """The codes of the findings of a program that say that it is wrong, and of those of one more code."""
    index = Index(strict=True)
    index.put("a.cu", text.encode())
    shown = (f for f in index.analyse().findings if f.confidence is not Confidence.POSSIBLE)
    return {f.code for f in shown if f.group in ("correctness", "device") or f.code == also}


def halves(text: str) -> tuple[str, str]:
    """The wrong program and the right one: lines that end in `//-` are the former's, those in `//+` the latter's."""
    lines = text.splitlines()
    wrong = [line for line in lines if not line.endswith("//+")]
    right = [line for line in lines if not line.endswith("//-")]
    return "\n".join(wrong), "\n".join(right)
