"""`stitchcuda demo`: the main job on the shipped example, through the same commands that a user types."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from stitchcuda.gpu_validate.capabilities import probe
from stitchcuda.server.cli import check, graph, shipped
from stitchcuda.server.cli.dispatch import CommandModule
from stitchcuda.server.cli.errors import CannotRun

EXAMPLE = "vit"
NEXT = """\
Next: stitchcuda explain redundant-sync says what such a finding means and when its fix is safe; stitchcuda check and
stitchcuda graph do the same for your own sources (files or folders); stitchcuda lsp shows it in an editor (README.md)."""
NOT_YET = """\
Not in this version: proposing and validating a faster program. What you saw comes from the source alone; nothing was
built or run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Takes none."""


def run(_: argparse.Namespace) -> int:
    example = shipped.folder("examples") / EXAMPLE
    if not example.is_dir():
        raise CannotRun(f"{example} is missing; install stitchcuda again")
    path = _short(example)
    print(f"The example: {path}, the inference of a vision transformer, written the plain way.\n", flush=True)
    print("What it does on the GPU, in the order of the program; the last part sums it up.\n", flush=True)
    graph_code = _type("graph", graph, [path])
    print("What is wrong with that order, or waits for nothing: an error would be a wrong result, a hint costs time.\n")
    check_code = _type("check", check, [path])
    print(f"{NEXT}\n\n{NOT_YET}")
    missing = {capability.name for capability in probe() if not capability.found}
    lacking = [shown for name, shown in (("nvcc", "CUDA compiler"), ("gpu", "GPU")) if name in missing]
    if lacking:
        print(f"This machine has no {' and no '.join(lacking)}; stitchcuda doctor says more.")
    return 2 if 2 in (graph_code, check_code) else 0


def _type(name: str, command: CommandModule, words: list[str]) -> int:
    """Runs a command as if it had been typed."""
    print(f"$ stitchcuda {' '.join((name, *words))}", flush=True)
    parser = argparse.ArgumentParser(f"stitchcuda {name}")
    command.add_arguments(parser)
    code = command.run(parser.parse_args(words))
    print(flush=True)
    return code


def _short(path: Path) -> str:
    """The path as seen from here, when that is shorter."""
    try:
        return min(str(path), os.path.relpath(path), key=len)
    except ValueError:  # another drive
        return str(path)
