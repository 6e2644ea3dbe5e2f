"""A2: what every finding says: who found it, a stable code with a page about it, how bad it is, and where the other side is."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lsprotocol import types as t
from stitchcuda.analysis.findings.finding import Severity
from stitchcuda.analysis.rules import ALL_CODES, RULES

from tests.server.client import REAL, ROOT, editor_session

FIXTURES = ROOT / "tests" / "fixtures" / "rules"
SEVERITIES = {
    Severity.ERROR: t.DiagnosticSeverity.Error,
    Severity.WARNING: t.DiagnosticSeverity.Warning,
    Severity.HINT: t.DiagnosticSeverity.Hint,
}
# Of these one side alone says nothing: a race, an early free, a barrier that some threads miss.
TWO_SITES = {
    "stream-race-raw",
    "stream-race-war",
    "stream-race-waw",
    "free-in-flight",
    "host-read-before-sync",
    "divergent-barrier",
    "double-free",
    "missing-syncthreads",
}
NEEDLESS = {"redundant-sync", "unknown-suppression", "unused-suppression"}
ALL = {"diagnosticsDelay": 0, "select": ["all"], "confidence": "possible", "wholeProgram": False}


@pytest.mark.asyncio
@pytest.mark.parametrize("client", ["neovim", "vscode"])
async def test_a2_every_rule_tells_what_a_reader_needs(client: str) -> None:
    """One bad fixture of each rule."""
    seen: set[str] = set()
    async with editor_session(client, REAL, ALL) as editor:
        for rule in RULES:
            path = min((FIXTURES / rule.code).glob("bad_*"))
            language = "python" if path.suffix == ".py" else "cuda"
            editor.open(path.as_uri(), path.read_text(encoding="utf-8"), language)
            if editor.pulls:
                found = await editor.pull(path.as_uri())
            else:
                found = await editor.pushed_for(path.as_uri(), lambda items: bool(items))
            mine = [d for d in found if d.code == rule.code]
            assert mine, f"{path.name}: {[d.code for d in found]}"
            for diagnostic in found:
                seen.add(str(diagnostic.code))
                _tells_all(diagnostic)
            if rule.code in TWO_SITES:
                others = [d for d in mine if d.related_information]
                assert others, f"{rule.code} does not say where the other side is"
                for diagnostic in others:
                    for related in diagnostic.related_information or ():
                        assert related.message and related.location != t.Location(path.as_uri(), diagnostic.range)
            editor.close(path.as_uri())
    assert seen >= {rule.code for rule in RULES}


def _tells_all(diagnostic: t.Diagnostic) -> None:
    code = str(diagnostic.code)
    rule = ALL_CODES[code]
    assert diagnostic.source == "stitchcuda"
    assert diagnostic.message and diagnostic.message[-1] not in ".\n"
    assert diagnostic.severity == SEVERITIES[rule.severity], code
    assert diagnostic.data is not None and _rule_in(diagnostic.data) == code
    assert diagnostic.code_description is not None
    page = Path(unquote(urlsplit(diagnostic.code_description.href).path))
    assert page.is_file() and page.samefile(ROOT / "docs" / "rules" / f"{code}.md")
    wanted = [t.DiagnosticTag.Unnecessary] if code in NEEDLESS else None
    assert (list(diagnostic.tags) if diagnostic.tags else None) == wanted, code


def _rule_in(data: object) -> object:
    return data.get("rule") if isinstance(data, dict) else getattr(data, "rule", None)


def test_a2_every_code_has_its_page() -> None:
    for code in ALL_CODES:
        assert (ROOT / "docs" / "rules" / f"{code}.md").is_file()
