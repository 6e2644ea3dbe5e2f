"""README.md, ARCHITECTURE.md and the pages name only what exists, and the code map names everything."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from stitchcuda.server.cli.dispatch import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))


def test_readme_names_every_command_and_no_other() -> None:
    named = {name for code in _code(README) for name in re.findall(r"\bstitchcuda ([a-z]+)\b", code)}
    assert named == {command.name for command in COMMANDS}


def _text(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def _code(text: str) -> list[str]:
    return [block or inline for block, inline in re.findall(r"```\w*\n(.*?)```|`([^`\n]+)`", text, re.DOTALL)]


@pytest.mark.parametrize("marker", ["run command", "test command"])
def test_readme_has_one_command_for_each_promise(marker: str) -> None:
    block = re.search(rf"<!-- {marker} -->\n```\w*\n(.*?)```", README, re.DOTALL)
    assert block is not None
    (line,) = block[1].strip().splitlines()
    assert line.startswith("python3 -m venv .venv && ")


@pytest.mark.parametrize("name", ["run", "test"])
def test_ci_runs_the_commands_of_the_readme(name: str) -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f"readme_command {name} " in script and "<!-- $1 command -->" in script
    assert f"<!-- {name} command -->" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", *PAGES])
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8"))
    assert not [target for target in targets if "://" not in target and not (path.parent / target).exists()]


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", *PAGES])
def test_files_that_pages_name_exist(document: str) -> None:
    """Paths from the root, in code: `analysis/order/machine.py`."""
    named = re.findall(r"`((?:analysis|gpu_validate|agent|server|scripts|benchmarks)/[\w/.-]+\.\w+)`", _text(document))
    assert not [name for name in named if not (ROOT / name).exists()]


def test_code_map_names_what_exists_and_every_part() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", ARCHITECTURE, re.MULTILINE)
    assert rows and not [row for row in rows if not (ROOT / row).exists()]
    packages = [
        path.parent.relative_to(ROOT).as_posix() + "/"
        for part in ("analysis", "gpu_validate", "agent", "server")
        for path in (ROOT / part).rglob("__init__.py")
    ]
    assert not set(packages) - set(rows), "ARCHITECTURE.md does not say what these folders hold"


def test_every_package_says_what_it_is() -> None:
    inits = [
        path for part in ("analysis", "gpu_validate", "agent", "server") for path in (ROOT / part).rglob("__init__.py")
    ]
    assert not [str(path) for path in inits if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]


def test_every_invariant_is_held_by_tests_that_exist() -> None:
    invariants = re.findall(r"^- \*\*I(\d+)\*\* (.+?)(?=^- \*\*I|^#|\Z)", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _ in invariants] == list(range(1, len(invariants) + 1))
    for number, text in invariants:
        tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
        assert tests, f"I{number} names no test"
        for path, name in tests:
            assert (ROOT / path).is_file(), f"I{number}: {path} does not exist"
            assert not name or name in _functions(ROOT / path), f"I{number}: {path} has no {name}"


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
