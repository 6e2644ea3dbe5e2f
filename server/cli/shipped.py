"""The folders that come with the package: `docs` and `examples`, in a checkout and in an installed wheel."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from stitchcuda.server.cli.errors import CannotRun


def folder(name: str) -> Path:
    """The folder of the data package `stitchcuda.<name>`; raises CannotRun when it was not installed.

    `importlib.resources` cannot read a package without `__init__.py` in an editable install, hence the module search path."""
    spec = importlib.util.find_spec(f"stitchcuda.{name}")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if Path(place).is_dir() and any(Path(place).iterdir()):  # an uninstalled version leaves empty folders behind
            return Path(place)
    raise CannotRun(f"the folder {name!r} that comes with stitchcuda is missing; install stitchcuda again")
