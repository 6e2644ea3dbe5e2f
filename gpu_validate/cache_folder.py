"""Where stitchcuda keeps what it can make again, and the journal of its runs: never beside the user's sources."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache folder of stitchcuda, which may not exist yet: `XDG_CACHE_HOME` where it is set (an absolute path, as the
    XDG base directory specification demands), else what the system has for it."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named) / "stitchcuda"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "stitchcuda" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "stitchcuda"
    return Path.home() / ".cache" / "stitchcuda"
