"""What a build is asked for and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """Why it is not known how a program is built: what, and what to do about it, as sentences."""

    what: str
    missing_tool: bool = False  # the machine lacks a program; nothing is wrong with the tree


@dataclass(frozen=True, slots=True)
class Unit:
    """One source file and the command that compiles it. `arguments` name the source last and write no output option."""

    source: str  # relative to the plan's folder
    arguments: tuple[str, ...]
    directory: str = "."  # relative to the plan's folder


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """How a program is built. `folder` is the absolute folder of the user's tree in which the build happens (in a copy).

    kind "command" and "make" run `command`; "cmake" configures `directory` and builds; "units" compiles every unit with what
    it names and links the objects with `link`; "python" compiles `program` to see whether it can be.
    """

    kind: str
    folder: Path
    directory: str = "build"  # the build tree, relative to the folder
    command: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()  # cmake -D
    units: tuple[Unit, ...] = ()
    link: tuple[str, ...] = ()
    program: str = ""  # where the program will be, relative to the folder; "" when only the build can tell
    notes: tuple[str, ...] = ()  # what was assumed
    whole_folder: bool = True  # False: only the units and what they include are copied


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One line of a compiler, linker or build tool. `path` as the user knows it, "" when none is named; `line` 1-based or 0."""

    severity: str  # "error" | "warning"
    message: str
    path: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel takes, a thread (registers, `stack` and `spilled` bytes) or a block (`shared`, static, bytes).
    `spilled` is None when the compiler's report of it was not seen. `code` names the machine code: equal code, equal name."""

    registers: int
    stack: int
    shared: int
    spilled: int | None
    code: str


@dataclass(frozen=True)
class Built:
    """A version that was built. `tree` is the copy that it was built in, kept as the build left it: run it with
    `Builder.placed`, which puts a copy of it where it was built.

    `device_code` names all device code of the program: equal names mean equal kernels, whatever the host code around them;
    "" when there is none, or when the program makes kernels as it runs (`compiles_at_run_time`) so that it cannot be told.
    """

    name: str
    tree: Path
    run_command: (
        tuple[str, ...] | None
    )  # to be run in the plan's folder of the placed copy; None: [run] command must say
    seconds: float
    warnings: tuple[Diagnostic, ...] = ()
    resources: Mapping[str, Resources] = field(default_factory=dict)  # by kernel
    device_code: str = ""
    device_functions: str = ""  # names the device code that is no kernel's own
    compiles_at_run_time: bool = False
    program_digest: str = ""  # of the program file
    log: Path | None = None
    notes: tuple[str, ...] = ()
    place: Path = Path()  # where it was built, and is run: what paths in its debug information begin with
    inside: Path = Path()  # the program's folder, relative to `tree` and `place`
    shown: str = ""  # the program's folder as the user gave it


@dataclass(frozen=True, slots=True)
class BuildFailed:
    """A version that could not be built. `reason` is one sentence; `missing_tool`: no compiler, so nothing was learnt."""

    reason: str
    diagnostics: tuple[Diagnostic, ...] = ()
    seconds: float = 0.0
    log: Path | None = None
    missing_tool: bool = False
    limit: str = ""  # the limit that ended it, or "cancelled": says nothing about the version
    of_baseline: bool = False  # it is the original that does not build
