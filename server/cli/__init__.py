"""The `stitchcuda` command: one module a command, imported when that command runs."""

from stitchcuda.server.cli.dispatch import main

__all__ = ["main"]
