"""Writes docs/rules/ from the docstrings of the rules: one page a code, and README.md with the list.

usage: python scripts/rule_docs.py [--check]

`--check` writes nothing and exits with 1 when a page is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from stitchcuda.analysis.findings.finding import Group
from stitchcuda.analysis.rules import ALL_CODES, documentation

FOLDER = Path(__file__).parents[1] / "docs" / "rules"
INDEX = "README.md"


def pages() -> dict[str, str]:
    """File name to text, for every file that belongs in the folder."""
    return {INDEX: _index()} | {f"{code}.md": documentation(code) for code in ALL_CODES}


def _index() -> str:
    lines = ["# Findings", "", "`stitchcuda explain CODE` prints the same pages.", ""]
    for group in Group:
        members = [rule for rule in ALL_CODES.values() if rule.group is group]
        if not members:
            continue
        lines += [f"## {group.value.capitalize()}", "", "| code | severity | what |", "|---|---|---|"]
        for rule in members:
            default = "" if rule.default else " (off by default)"
            lines.append(f"| [{rule.code}]({rule.code}.md) | {rule.severity.value} | {rule.summary}{default} |")
        lines.append("")
    return "\n".join(lines)


def stale() -> list[str]:
    """Names of files that are missing, differ or belong to no rule."""
    wanted = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main(arguments: list[str]) -> int:
    names = stale()
    for name in names:
        print(f"docs/rules/{name} {'is stale: run scripts/rule_docs.py' if arguments else 'is brought up to date'}")
    if arguments == ["--check"]:
        return 1 if names else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for name in names:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name], encoding="utf-8", newline="\n")
        else:
            (FOLDER / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
