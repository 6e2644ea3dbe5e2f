"""Where the folders that come with the package are found."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.shipped import folder


def test_an_empty_folder_left_by_an_older_install_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, real = tmp_path / "left", tmp_path / "real"
    left.mkdir()
    real.mkdir()
    (real / "vit").mkdir()
    spec = ModuleSpec("stitchcuda.examples", None)
    spec.submodule_search_locations = [str(tmp_path / "gone"), str(left), str(real)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert folder("examples") == real
    spec.submodule_search_locations = [str(left)]
    with pytest.raises(CannotRun, match="'examples'"):
        folder("examples")
