#!/usr/bin/env python3
"""Writes docs/rules/<code>.md from the rules' docstrings. `--check` only says which pages are stale (exit code 1)."""

from __future__ import annotations

import sys
from pathlib import Path

from stitchcuda.analysis.rules import RULES, documentation

PAGES = Path(__file__).resolve().parent.parent / "docs" / "rules"


def stale() -> list[str]:
    """Codes whose page is missing or does not say what the rule's docstring says, and pages without a rule."""
    wanted = {rule.code: documentation(rule.code) for rule in RULES}
    pages = {page.stem: page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")}
    return sorted(code for code in wanted.keys() | pages.keys() if wanted.get(code) != pages.get(code))


def write() -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    for page in PAGES.glob("*.md"):
        page.unlink()
    for rule in RULES:
        (PAGES / f"{rule.code}.md").write_text(documentation(rule.code), encoding="utf-8")


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        codes = stale()
        for code in codes:
            print(f"docs/rules/{code}.md is stale: run scripts/rule_docs.py")
        sys.exit(bool(codes))
    write()
