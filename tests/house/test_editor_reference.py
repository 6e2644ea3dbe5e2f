"""What editors are offered has its pages: every code action kind, server command and setting, and the VS Code extension's own; with the
defaults of the code, and nothing that is not there any more."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stitchcuda.agent.transform_names import IDS
from stitchcuda.server.features.code_action import KINDS
from stitchcuda.server.lsp import COMMANDS
from stitchcuda.server.settings import Settings

from scripts.rewrite_docs import stale

ROOT = Path(__file__).parents[2]
MANIFEST: dict[str, Any] = json.loads((ROOT / "editors" / "vscode" / "package.json").read_text(encoding="utf-8"))
_HEADING = re.compile(r"^## `([^`]+)`$", re.MULTILINE)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    names = _HEADING.findall(text)
    assert len(names) == len(set(names))
    return dict(zip(names, _HEADING.split(text)[2::2], strict=True))


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def defaults(text: str) -> dict[str, object]:
    found = {}
    for name, body in sections(text).items():
        default = re.match(r"\n\nDefault: `(.+?)`\.", body)
        assert default is not None, f"{name}: its section begins with the default"
        found[name] = json.loads(default[1])
    return found


def test_every_setting_has_its_section_with_its_default() -> None:
    server, client = page("settings.md").split("\n# Settings of the VS Code extension alone\n")
    assert defaults(server) == {name: _plain(value) for name, value in asdict(Settings()).items()}
    declared = MANIFEST["contributes"]["configuration"]["properties"]
    assert {f"stitchcuda.{name}": value for name, value in (defaults(server) | defaults(client)).items()} == {
        name: value["default"] for name, value in declared.items()
    }


def test_every_choice_of_a_setting_is_named() -> None:
    told = sections(page("settings.md"))
    for name, value in MANIFEST["contributes"]["configuration"]["properties"].items():
        for choice in value.get("enum", ()):
            assert f'"{choice}"' in told[name.removeprefix("stitchcuda.")] or choice == "rules", (name, choice)


def test_every_command_has_its_section() -> None:
    server, client = page("server-commands.md").split("\n# Commands of the VS Code extension\n")
    told = sections(server)
    assert set(told) == {name for name, _ in COMMANDS}
    assert all(re.match(r"\n\n`\[.*\]` -> ", body) for body in told.values()), "arguments and answer come first"
    rows = dict(re.findall(r"^\| `(stitchcuda\.\w+)` \| (.+?) \|$", client, re.MULTILINE))
    titles = {c["command"]: c["title"] for c in MANIFEST["contributes"]["commands"]}
    assert rows.keys() == titles.keys()
    assert all(rows[name].startswith(title) for name, title in titles.items())


def test_every_kind_of_action_has_its_section() -> None:
    each = "refactor.rewrite.stitchcuda."
    kinds = {f"{each}TRANSFORM" if kind.removeprefix(each) in IDS else kind for kind in KINDS}
    assert set(sections(page("actions.md"))) == kinds


def test_rewrites_are_fresh() -> None:
    assert not stale(), "python scripts/rewrite_docs.py brings docs/rewrites.md up to date"
    assert set(sections(page("rewrites.md"))) == set(IDS)


def test_the_page_about_editors_links_to_all_of_them() -> None:
    text = page("editors.md")
    for name in ("actions.md", "server-commands.md", "settings.md", "rewrites.md"):
        assert f"]({name}" in text
