"""Runs of one built version, each in a fresh process, from the same folder contents and with an empty home.

Every run of a version uses the same binary, arguments, environment and tracer library, so that a program cannot tell a checked
run from a timed one.
"""

from __future__ import annotations

import random
import re
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.observe.files import Folder
from stitchcuda.gpu_validate.observe.shown import Shown
from stitchcuda.gpu_validate.processes import Ended, Limits, clean_environment
from stitchcuda.gpu_validate.removal import remove_if_possible, remove_tree
from stitchcuda.gpu_validate.trace.model import CallSite, Trace
from stitchcuda.gpu_validate.trace.session import TraceRequest
from stitchcuda.gpu_validate.usage import most_memory

RETRY_SECONDS = 3.0  # before a run that found no GPU memory is tried once more


class Cancelled(Exception):
    """The caller asked to stop."""


class RunTraced(Protocol):
    """`trace.session.run_traced`, or what stands for it in a test."""

    def __call__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        limits: Limits,
        request: TraceRequest,
        library: Path,
        cancel: Callable[[], bool] | None = None,
        scratch: Path | None = None,
    ) -> tuple[Ended, Trace | None]: ...


@dataclass(frozen=True, slots=True)
class Case:
    """What a run is given. `hidden` values were drawn for this validation and stand in no file."""

    size: str = ""
    seed: str = ""
    hidden: bool = False

    @property
    def name(self) -> str:
        parts = [f"size {self.size}" if self.size else "", f"seed {self.seed}" if self.seed else ""]
        return " ".join(filter(None, parts)) + (" (drawn)" if self.hidden else "")


def cases(project: Project, contract: Contract, draw: random.Random | None = None) -> tuple[Case, ...]:
    """The cases to run: every size and every seed once, and values that nobody could have known. Raises ValueError when the
    command asks for a size and none is given."""
    draw = draw or random.Random(secrets.randbits(64))
    command, run = project.run.command, project.run
    if "{size}" in command and not run.sizes:
        raise ValueError('[run] command holds {size}: give [run] sizes, such as sizes = ["4096", "5000"]')
    sizes = list(run.sizes) if "{size}" in command else [""]
    seeds = ([str(s) for s in run.seeds] or ["1"]) if "{seed}" in command else [""]
    out = [Case(size, seeds[0]) for size in sizes] + [Case(sizes[0], seed) for seed in seeds[1:]]
    hidden_seed = str(draw.randrange(10_000, 1 << 31)) if "{seed}" in command else ""
    hidden_size = _unseen(sizes, draw) if contract.inputs else ""
    if hidden_size or hidden_seed:
        out.append(Case(hidden_size or sizes[0], hidden_seed or seeds[0], True))
    return tuple(out)


def _unseen(sizes: Sequence[str], draw: random.Random) -> str:
    """A size that is not in the list: ragged, and no larger than the largest, which is known to fit."""
    if not all(re.fullmatch(r"[1-9]\d*", size) for size in sizes):
        return ""
    known = {int(size) for size in sizes}
    low, high = (min(known), max(known)) if len(known) > 1 else (max(1, max(known) * 3 // 4), max(known))
    free = [n for n in (draw.randint(low, high) for _ in range(50)) if n not in known]
    return str(next((n for n in free if n % 2), free[0])) if free else ""


class Room:
    """Where one version runs: every run in a fresh copy of its folder, with an empty home."""

    def __init__(
        self,
        place: Callable[[], AbstractContextManager[Path]],
        run_command: Sequence[str] | None,
        project: Project,
        run_traced: RunTraced,
        *,
        scratch: Path,
        library: Path,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """`place` puts a fresh copy of the built version where it was built and takes it away again (`Builder.placed`);
        `run_command` is what the build found. Raises ValueError when nothing says what to run."""
        if not project.run.command and run_command is None:
            raise ValueError("nothing says what to run: give [run] command")
        self._place, self._found, self._project, self._run_traced = place, run_command, project, run_traced
        self._library, self._cancelled = library, cancelled
        self._scratch = scratch

    def run(self, request: TraceRequest, case: Case = Case()) -> Shown:
        """One run. Raises Cancelled; all else is in what it shows."""
        if self._cancelled():
            raise Cancelled
        home = self._scratch / "run-home"  # one path for all runs: a program must not see which one it is in
        try:
            remove_tree(home)
            home.mkdir(parents=True)
            with self._place() as folder:
                return self._run_in(folder, home, request, case)
        except OSError as error:
            return Shown(Ended(not_started=f"its folder cannot be copied: {error.strerror or error}"), None)
        finally:
            remove_if_possible(home)

    def _run_in(self, folder: Path, home: Path, request: TraceRequest, case: Case) -> Shown:
        directory = run_directory(folder, self._project)
        if directory is None:
            return Shown(Ended(not_started=no_directory(self._project)), None)
        before = Folder(directory)
        ended, trace = self._run_traced(
            command_for(self._project, self._found, case),
            cwd=directory,
            env=clean_environment(self._project.run.env, home=home),
            limits=Limits(seconds=self._project.run.timeout, memory_bytes=most_memory()),
            request=request,
            library=self._library,
            cancel=self._cancelled,
            scratch=folder,
        )
        if ended.stopped == "cancelled" or self._cancelled():
            raise Cancelled
        trace = None if trace is None else _at_home(trace, folder)
        try:
            return Shown(ended, trace, before.written(self._project.observe.files))
        except OSError as error:
            return Shown(ended, trace, problem=f"what it wrote cannot be collected: {error.strerror or error}")

    def run_with_memory(self, request: TraceRequest, case: Case = Case()) -> Shown:
        """One run, and once more when the GPU had no memory left for it: another process may be about to end."""
        shown = self.run(request, case)
        if shown.out_of_memory and not shown.ended.ok:
            time.sleep(RETRY_SECONDS)
            shown = self.run(request, case)
        return shown


def _at_home(trace: Trace, folder: Path) -> Trace:
    """The trace with sites in the program's own files by paths relative to it: the copy that ran is nobody's."""

    def home(site: CallSite) -> CallSite:
        path = Path(site.path)
        return replace(site, path=path.relative_to(folder).as_posix()) if path.is_relative_to(folder) else site

    return replace(
        trace, calls=tuple(replace(c, sites=tuple(map(home, c.sites))) if c.sites else c for c in trace.calls)
    )


def run_directory(folder: Path, project: Project) -> Path | None:
    """Where a version runs; None when that is no folder of the copy: a link can lead out of it, into the user's own files."""
    directory = (folder / project.run.directory).resolve()
    return directory if directory.is_dir() and directory.is_relative_to(folder.resolve()) else None


def no_directory(project: Project) -> str:
    """What to say when there is none."""
    return f"[run] directory {project.run.directory!r} is no folder of the built program"


def command_for(project: Project, found: Sequence[str] | None, case: Case) -> list[str]:
    """What starts the program: [run] command with the case's values, else the program that the build made."""
    if not project.run.command:
        return list(found or ())
    return shlex.split(project.run.command.replace("{size}", case.size).replace("{seed}", case.seed))
