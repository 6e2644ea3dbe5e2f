"""Findings about the kernels of a text, and texts that hold two variants of a program."""

from __future__ import annotations

import re

from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.index import Index

_ONLY = re.compile(r"\s*// only: (ok|bad)$")


def found(text: str, name: str = "k.cu") -> list[tuple[str, str, int]]:
    """Code, confidence and line of each finding about device code, in order of lines."""
    index = Index(strict=True)
    source = text.encode()
    index.put(name, source)
    analysis = index.analyse()
    out = []
    for finding in analysis.findings:
        if finding.group == "device":
            line = source.count(b"\n", 0, analysis.program.locate(finding.site).start) + 1
            out.append((finding.code, finding.confidence.value, line))
    return sorted(out, key=lambda f: f[2])


def shown(text: str) -> list[str]:
    """The codes of the findings that users see by default."""
    return [code for code, confidence, _ in found(text) if confidence != Confidence.POSSIBLE]


def variant(text: str, which: str) -> str:
    """The text without the lines that only the other variant has (`// only: ok`, `// only: bad`); lines keep their numbers."""
    out = []
    for line in text.splitlines():
        match = _ONLY.search(line)
        out.append("" if match and match[1] != which else line[: match.start()] if match else line)
    return "\n".join(out) + "\n"
