"""The package folders, the names they are imported by, and what the type checkers see must agree (docs/adr/0001)."""

from __future__ import annotations

import ast
import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]


def names_in_setup(variable: str) -> tuple[str, ...]:
    for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == variable:
            value = ast.literal_eval(node.value)
            assert isinstance(value, tuple)
            return value
    raise AssertionError(f"setup.py does not set {variable}")


CODE, DATA = names_in_setup("CODE"), names_in_setup("DATA")


def test_every_part_has_its_import_name() -> None:
    assert SETUPTOOLS["package-dir"] == {f"stitchcuda.{name}": name for name in (*CODE, *DATA)}
    assert set(SETUPTOOLS["package-data"]) == {f"stitchcuda.{name}" for name in (*CODE, *DATA)}


def test_type_checkers_see_every_part() -> None:
    links = {link.name: link for link in (ROOT / ".typing" / "stitchcuda").iterdir()}
    assert sorted(links) == sorted(CODE)
    for name, link in links.items():
        assert link.resolve() == ROOT / name, f"{link} is not a link; scripts/link_typing.py makes it one"


@pytest.mark.parametrize("part", CODE)
def test_every_folder_with_modules_is_a_package(part: str) -> None:
    """setuptools leaves out a folder without `__init__.py`; the wheel would then miss it."""
    folders = {path.parent for path in (ROOT / part).rglob("*.py")}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").is_file()]
    assert (ROOT / part / "py.typed").is_file()


@pytest.mark.parametrize("part", CODE)
def test_the_checkout_is_what_is_tested(part: str) -> None:
    spec = importlib.util.find_spec(f"stitchcuda.{part}")
    assert spec is not None and spec.origin is not None
    assert Path(spec.origin).resolve() == ROOT / part / "__init__.py", (
        "install the checkout with pip install -e '.[dev]'"
    )


def test_the_command_exists() -> None:
    module, _, name = PROJECT["project"]["scripts"]["stitchcuda"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))
