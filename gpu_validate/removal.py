"""Removes folders that programs worked in, whatever they made of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

SECONDS = 300.0


def remove_tree(path: Path) -> None:
    """Removes a folder and all below it; nothing to do when it is not there. Folders without permissions and folders nested a
    thousand deep, which `shutil.rmtree` does not manage, are removed as well. Raises OSError."""
    if not os.path.lexists(path):
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        for command in (["chmod", "-R", "u+rwX", "--", str(path)], ["rm", "-rf", "--", str(path)]):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
        if os.path.lexists(path):
            raise OSError(f"{path} cannot be removed") from None


def remove_if_possible(path: Path) -> None:
    """The same for folders whose rest does no harm."""
    with contextlib.suppress(OSError):
        remove_tree(path)
