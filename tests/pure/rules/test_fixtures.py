"""Fixtures of the rules, from source text to findings and through their fixes.

`tests/fixtures/rules/<code>/bad_*.cu` mark with `// expect: <code>` the lines where findings of that code start, and
`ok_*.cu` have none. Correctness and device findings of other codes are not allowed in either. A rule that has no fix says so on its
page ("There is no automatic fix").
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from stitchcuda.analysis.findings.finding import Confidence, KernelRule, Rule
from stitchcuda.analysis.index import Analysis, Index
from stitchcuda.analysis.rules import BY_CODE
from stitchcuda.gpu_validate.toolchain import find_nvcc
from stitchcuda.server.cli.autofix import apply
from stitchcuda.server.report.rows import Row, rows

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "rules"
SERIOUS = ("correctness", "device")
FIXTURES = sorted(FOLDER.glob("*/*.cu"))
BAD = [f for f in FIXTURES if f.name.startswith("bad_")]
MENDED = [f for f in BAD if f.parent.name in BY_CODE and "There is no automatic fix" not in BY_CODE[f.parent.name].doc]
_EXPECT = re.compile(rb"//\s*expect:\s*([\w-]+)")


@pytest.mark.parametrize("rule", BY_CODE.values(), ids=lambda rule: rule.code)
def test_every_rule_has_bad_and_good_ones(rule: Rule | KernelRule) -> None:
    folder = FOLDER / rule.code
    assert list(folder.glob("bad_*.cu")) and list(folder.glob("ok_*.cu"))


def analyse(name: str, text: bytes) -> Analysis:
    index = Index(strict=True)
    index.put(name, text)
    return index.analyse()


def shown(name: str, text: bytes) -> list[Row]:
    return [r for r in rows(analyse(name, text)) if r.confidence != Confidence.POSSIBLE]


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FIXTURES, ids=name_of)
def test_fixture(path: Path) -> None:
    text = path.read_bytes()
    expected = {
        (number, match[1].decode())
        for number, line in enumerate(text.splitlines(), 1)
        for match in _EXPECT.finditer(line)
    }
    assert bool(expected) == path.name.startswith("bad_")
    code = path.parent.name
    found = {(r.place.line, r.code) for r in shown(path.name, text) if r.code == code or r.group in SERIOUS}
    assert found == expected


def fixed_text(path: Path) -> bytes:
    """The text after the preferred fix of each finding of the fixture's code."""
    text = path.read_bytes()
    for _ in range(8):
        found = [r for r in shown(path.name, text) if r.code == path.parent.name]
        if not found:
            break
        fixes = [f for r in found for f in r.fixes if f.preferred]
        assert fixes, f"no fix for {found[0].message}"
        after = apply({path.name: text}, fixes[0].edits)
        assert after is not None, "the edits overlap"
        assert after[path.name] != text
        text = after[path.name]
    return text


@pytest.mark.parametrize("path", MENDED, ids=name_of)
def test_fix_removes_the_finding(path: Path) -> None:
    left = shown(path.name, fixed_text(path))
    assert [r for r in left if r.group in SERIOUS or r.code == path.parent.name] == []


@pytest.mark.nvcc
@pytest.mark.parametrize("path", MENDED, ids=name_of)
def test_fixed_text_compiles(path: Path, tmp_path: Path) -> None:
    nvcc, _ = find_nvcc()
    assert nvcc is not None
    source = tmp_path / path.name
    source.write_bytes(fixed_text(path))
    command = [str(getattr(nvcc, "path", nvcc)), "-std=c++17", "-c", str(source), "-o", str(tmp_path / "out.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
