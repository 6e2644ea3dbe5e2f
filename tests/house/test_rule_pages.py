"""docs/rules/ says what the rules say, and every rule says what a reader needs."""

from __future__ import annotations

import re

import pytest
from stitchcuda.analysis.findings.finding import Measured, Rule
from stitchcuda.analysis.rules import ALL_CODES, RULES, documentation
from stitchcuda.server.cli.dispatch import main

from scripts.rule_docs import stale

SECTIONS = ["What", "Why", "Example", "Use instead", "Fix safety", "References"]


def test_pages_are_fresh() -> None:
    assert stale() == [], "python scripts/rule_docs.py brings them up to date"


@pytest.mark.parametrize("rule", ALL_CODES.values(), ids=lambda rule: rule.code)
def test_page_is_complete(rule: Rule | Measured) -> None:
    page = documentation(rule.code)
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == SECTIONS
    assert page.count("```") % 2 == 0
    assert isinstance(rule, Measured) or "Ordering row" in page.split("## References")[1]
    assert rule.summary and not rule.summary.endswith(".")


def test_codes_are_unique_and_in_kebab_case() -> None:
    codes = list(ALL_CODES)
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", code) for code in codes)


def test_explain_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    for code in ALL_CODES:
        assert main(["explain", code]) == 0
        assert capsys.readouterr().out == documentation(code)


def test_explain_lists_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(ALL_CODES)


def test_explain_suggests_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    code = RULES[0].code
    assert main(["explain", code[:-1]]) == 2
    assert code in capsys.readouterr().err
