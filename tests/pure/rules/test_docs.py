"""Every rule documents itself, and the pages are fresh."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from stitchcuda.analysis.rules import RULES, documentation
from stitchcuda.analysis.rules.finding import Rule

SECTIONS = ["What", "Why", "Example", "Use instead", "Fix safety", "References"]
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_sections(rule: Rule) -> None:
    page = documentation(rule.code)
    headings = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert headings == SECTIONS
    assert "Ordering row" in page.split("## References")[1]


def test_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/rule_docs.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_fixtures_exist(rule: Rule) -> None:
    folder = ROOT / "tests" / "fixtures" / "rules" / rule.code
    assert list(folder.glob("bad_*.cu")) and list(folder.glob("ok_*.cu"))
