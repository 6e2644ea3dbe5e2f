"""Finds the command, parses its arguments, runs it, and turns every way of ending into an exit code.

A command is a module with `add_arguments(parser)` and `run(arguments) -> int`. It prints its result on stdout, and raises
`CannotRun` for what the user has to put right. Exit codes: 0 done, 1 done and the answer is "no" (findings, a regression), 2 could not
run, 130 interrupted, 141 nobody reads the output any more.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import Protocol, cast

from stitchcuda.server.cli.errors import CannotRun

_CANNOT_WRITE = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO") if hasattr(errno, name)}


class CommandModule(Protocol):
    """What a module of the table below provides."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str

    @property
    def module(self) -> str:
        return f"stitchcuda.server.cli.{self.name}"


COMMANDS = (
    Command("check", "report synchronisation hazards in CUDA programs"),
    Command("graph", "print the execution graph: what runs, on which stream, after what"),
    Command("stitch", "from an intent to a validated, faster version of a program"),
    Command("runs", "past runs of stitch: show, apply a choice of units, revert, replay"),
    Command("contract", "what a request in plain words asks for, and what it leaves open"),
    Command("explain", "what a finding means, why it matters and what to do"),
    Command("validate", "is a changed program still right, and really faster than the original?"),
    Command("gate", "is any launch or copy slower on the GPU than in the baseline?"),
    Command("trace", "run a program and tell its CUDA calls and device operations"),
    Command("demo", "the main job on the example that comes with stitchcuda"),
    Command("doctor", "what this machine has and what each missing part costs"),
    Command("lsp", "the language server, for editors"),
)


@cache
def version() -> str:
    """The installed version."""
    # The name of the folder that the installer made tells it. `importlib.metadata` reads what stands in it with the parser for mail:
    # to import all that takes as long as a twentieth of the language server's start.
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith("stitchcuda-") and name.endswith(".dist-info"):
                return name.removeprefix("stitchcuda-").removesuffix(".dist-info")
    import importlib.metadata

    try:
        return importlib.metadata.version("stitchcuda")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def main(argv: list[str] | None = None) -> int:
    """Runs one command line and returns its exit code; never raises and never shows a traceback."""
    # A stream that the caller closed is None; what would go there is dropped.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # paths may hold what the terminal's encoding cannot say
    words = sys.argv[1:] if argv is None else argv
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except CannotRun as error:
        print(f"stitchcuda: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _discard_output()
        return 141
    except OSError as error:
        if error.errno not in _CANNOT_WRITE or error.filename is not None:
            _report_bug(words, error)
            return 2
        _discard_output()
        print(f"stitchcuda: the output cannot be written ({error.strerror})", file=sys.stderr)
        return 2
    except Exception as error:  # noqa: BLE001 - the one place that must catch everything
        _report_bug(words, error)
        return 2


def _discard_output() -> None:
    """Without this the interpreter complains about the closed pipe when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    parser = _parser()
    if not words:
        parser.print_help()
        return 2
    if words[0] == "help":
        words = [*words[1:2], "--help"]
    if not words[0].startswith("-"):
        command = next((command for command in COMMANDS if command.name == words[0]), None)
        if command is None:
            names = ", ".join(command.name for command in COMMANDS)
            raise CannotRun(f"unknown command {words[0]!r}; the commands are {names} (see stitchcuda --help)")
        return _run_command(command, words[1:])
    try:
        parser.parse_args(words)
    except SystemExit as end:  # argparse has printed the help, the version or what is wrong
        return end.code if isinstance(end.code, int) else 2
    return 2


def _run_command(command: Command, words: list[str]) -> int:
    module = cast(CommandModule, importlib.import_module(command.module))
    parser = argparse.ArgumentParser(f"stitchcuda {command.name}", description=_sentence(command.summary))
    module.add_arguments(parser)
    try:
        arguments = parser.parse_args(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2
    arguments.words = tuple(words)  # for what asks to be run again as it was
    return module.run(arguments)


def _parser() -> argparse.ArgumentParser:
    width = max(len(command.name) for command in COMMANDS)
    lines = "\n".join(f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS)
    parser = argparse.ArgumentParser(
        "stitchcuda",
        usage="stitchcuda COMMAND [ARGUMENTS...]",
        description="Understands whole CUDA programs: finds hazards, shows what runs, stitches validated faster versions.",
        epilog=f"commands:\n{lines}\n\n`stitchcuda COMMAND --help` describes one command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stitchcuda {version()}")
    return parser


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}{'' if summary.endswith('?') else '.'}"


def _report_bug(words: list[str], error: Exception) -> None:
    """Says what to do about an error that stitchcuda did not expect; its details go to a file."""
    import tempfile
    import traceback

    print(f"stitchcuda: internal error: {type(error).__name__}: {error}", file=sys.stderr)
    details = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="stitchcuda-error-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(f"stitchcuda {version()}, Python {sys.version}, {sys.platform}\narguments: {words}\n\n{details}")
    except OSError:
        print("This is a bug in stitchcuda. Please report it to the project, with the command.", file=sys.stderr)
    else:
        print(
            f"This is a bug in stitchcuda. Please report it to the project, with the command and {file.name}.",
            file=sys.stderr,
        )
