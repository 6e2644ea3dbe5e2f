"""docs/stitchcuda-toml.md names exactly the keys that are read, with their defaults; its examples are read without a problem."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.project_text import parse_project

PAGE = (Path(__file__).parents[2] / "docs" / "stitchcuda-toml.md").read_text(encoding="utf-8")
ROWS = {
    (section, key): (value, default)
    for section, text in re.findall(r"^## \[(\w+)\]\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    for key, value, default in re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def test_every_key_and_no_other() -> None:
    project = Project()
    assert set(ROWS) == {(s.name, f.name) for s in fields(project) for f in fields(getattr(project, s.name))}


def test_the_defaults_are_those_of_the_code() -> None:
    for (section, key), (_, default) in ROWS.items():
        found = re.match(r"`([^`]+)`", default)
        value = getattr(getattr(Project(), section), key)
        assert value == "" if found is None else tomllib.loads(f"x = {found[1]}")["x"] == _plain(value), (section, key)


def test_the_examples_are_read() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    project, problems = parse_project(block)
    assert not problems and project != Project()
    for (section, key), (value, _) in ROWS.items():
        if example := re.search(r": `([^`]+)`$", value):
            assert parse_project(f"[{section}]\n{key} = {example[1]}")[1] == (), (section, key)
