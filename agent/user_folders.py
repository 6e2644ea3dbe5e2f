"""The folders of the user that stitchcuda reads settings from and keeps decisions in: never inside of a workspace."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def config_folder() -> Path:
    """What the user writes: settings, prompts. It may not exist."""
    return _folder("XDG_CONFIG_HOME", ".config", "APPDATA", "Roaming", "")


def state_folder() -> Path:
    """What stitchcuda keeps of the user's decisions. It may not exist."""
    return _folder("XDG_STATE_HOME", ".local/state", "LOCALAPPDATA", "Local", "State")


def _folder(xdg: str, below_home: str, windows: str, app_data: str, part: str) -> Path:
    """As `gpu_validate.cache_folder` has it for the cache."""
    named = os.environ.get(xdg, "")
    if os.path.isabs(named):
        return Path(named) / "stitchcuda"
    if sys.platform == "win32":
        base = os.environ.get(windows, "")
        return (Path(base) if base else Path.home() / "AppData" / app_data) / "stitchcuda" / part
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "stitchcuda" / part
    return Path.home() / below_home / "stitchcuda"
