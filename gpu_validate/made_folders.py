"""Folders that hold no sources of the user: told by their names, for everything that walks a tree."""

from __future__ import annotations

_MADE = frozenset({"build", "_build", "CMakeFiles", "node_modules", "venv", "__pycache__"})


def holds_no_sources(folder: str) -> bool:
    """Whether a folder of this name is hidden, or made by builds and tools. `builder` and `builds_graphs` are the user's."""
    return folder in _MADE or folder.startswith((".", "build-", "cmake-build"))
