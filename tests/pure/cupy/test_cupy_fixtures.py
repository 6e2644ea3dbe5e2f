"""Whole CuPy programs: `tests/fixtures/cupy/bad_*.py` mark with `# expect: <code>` the lines where correctness findings
start, `ok_*.py` have none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stitchcuda.analysis.findings.finding import Confidence, Group
from stitchcuda.analysis.index import Index

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cupy"
EXPECT = re.compile(rb"#\s*expect:\s*([\w-]+)")


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.py")), ids=lambda p: p.stem)
def test_o8_cupy_program(path: Path) -> None:
    text = path.read_bytes()
    index = Index(strict=True)
    index.put(path.name, text)
    analysis = index.analyse()
    found = {
        (finding.code, text.count(b"\n", 0, analysis.program.locate(finding.site).start) + 1)
        for finding in analysis.findings
        if finding.group is Group.CORRECTNESS and finding.confidence is not Confidence.POSSIBLE
    }
    expected = {
        (match[1].decode(), number)
        for number, line in enumerate(text.splitlines(), 1)
        for match in EXPECT.finditer(line)
    }
    assert bool(expected) == path.name.startswith("bad_")
    assert found == expected
    assert not analysis.problems
