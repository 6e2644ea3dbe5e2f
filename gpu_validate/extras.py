"""How the optional libraries are installed: said in one place, and right for how stitchcuda itself was installed."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

PACKAGE = "stitchcuda"


def how_to_install(extra: str) -> str:
    """The command that adds an extra of pyproject.toml: to a checkout from the checkout, else by name. It names no folder of this
    machine but the environment inside of the checkout: such texts may go to a model."""
    where = _installed_from()
    if where is None:
        return f"pip install '{PACKAGE}[{extra}]'"
    checkout, editable = where
    own = checkout / ".venv"
    pip = f".venv/{'Scripts' if sys.platform == 'win32' else 'bin'}/pip" if Path(sys.prefix) == own else "pip"
    return f"{pip} install {'-e ' if editable else ''}'.[{extra}]' in the checkout of {PACKAGE}"


def _installed_from() -> tuple[Path, bool] | None:
    """The folder that it was installed from, and whether changes there count at once; None for what came as a package."""
    try:
        said = importlib.metadata.distribution(PACKAGE).read_text("direct_url.json")
        value = json.loads(said or "{}")
        url = urlsplit(value["url"])
        editable = bool(value["dir_info"].get("editable"))
    except (importlib.metadata.PackageNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
    folder = Path(url2pathname(url.path))
    return (folder, editable) if url.scheme == "file" and (folder / "pyproject.toml").is_file() else None
