"""docs/ordering.md says what is implemented: each such row is named in the code and by the tests that it lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"^\| ([A-Z]\d+) \| .+? \| [^|]+ \| ([^|]+) \| (.*?) ?\|$", re.MULTILINE)
CODE = tuple((ROOT / "analysis").rglob("*.py"))
TESTS = (
    ROOT / "tests" / "pure" / "order" / "test_rows.py",
    ROOT / "tests" / "pure" / "order" / "test_capture_rows.py",
    ROOT / "tests" / "pure" / "order" / "test_execution.py",
    ROOT / "tests" / "pure" / "cupy" / "test_cupy_fixtures.py",
    ROOT / "tests" / "pure" / "kernel" / "test_rows.py",
)
ROWS = {row: (status.strip(), tests) for row, status, tests in ROW.findall((ROOT / "docs" / "ordering.md").read_text())}
IMPLEMENTED = sorted(row for row, (status, _) in ROWS.items() if status.startswith("implemented"))


def test_the_rows_of_this_version_are_there() -> None:
    wanted = {f"O{k}" for k in range(1, 7)} | {"W1", "W2", "W3", "E1", "E2"} | {f"C{k}" for k in range(1, 8)}
    assert wanted <= set(IMPLEMENTED)


@pytest.mark.parametrize("row", IMPLEMENTED)
def test_an_implemented_row_is_named_in_the_code(row: str) -> None:
    named = re.compile(rf"\b{row}\b|\b{row[0]}\d+-{row[0]}?{row[1:]}\b")
    assert any(named.search(path.read_text(encoding="utf-8")) for path in CODE)


@pytest.mark.parametrize("row", IMPLEMENTED)
def test_an_implemented_row_is_held_by_the_tests_it_lists(row: str) -> None:
    defined = {name for path in TESTS for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    listed = set(re.findall(r"`(test_\w+)`", ROWS[row][1]))
    assert listed and listed <= defined
    assert all(name.startswith(f"test_{row.lower()}_") for name in listed)
    assert {name for name in defined if name.startswith(f"test_{row.lower()}_")} == listed
