"""G4: does compute-sanitizer report anything of the version that it does not report of the original?

Each tool runs on both. A report that the original gives as well is told and not held against the version. racecheck and
synccheck look at nothing but kernels, and may take hundreds of times the program's own time: they look at the kernels whose code
or launches differ, at the first launches of them, and the evidence says so. When none differ they are not run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from stitchcuda.analysis.contract.project import Project
from stitchcuda.gpu_validate.building.model import Built
from stitchcuda.gpu_validate.gates.changed_kernels import ChangedKernels, changed_kernels, filter_options
from stitchcuda.gpu_validate.processes import Ended, Limits, clean_environment, run_limited
from stitchcuda.gpu_validate.removal import remove_if_possible, remove_tree
from stitchcuda.gpu_validate.runs import Cancelled, Case, command_for, no_directory, run_directory
from stitchcuda.gpu_validate.sanitizer import INSIDE_KERNELS, TOOLS, Checked, Report, check, host_frames, identity
from stitchcuda.gpu_validate.usage import most_memory
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState

SLOWER = 20.0  # a tool may take this many times the run's own limit
LONGEST_SECONDS = 1800.0
SHOWN = 20  # findings of each kind
LAUNCHES = 32  # of the kernels that differ, in which racecheck and synccheck look


class Places(Protocol):
    """`building.builder.Builder`."""

    def placed(self, built: Built) -> AbstractContextManager[Path]: ...


class MemoryCheck:
    """The gate; the original's reports are made once and kept. `scratch` is a folder of our own, outside of what is run."""

    def __init__(self, sanitizer: Path | None, scratch: Path, cancelled: Callable[[], bool] = lambda: False) -> None:
        self._sanitizer, self._scratch, self._cancelled = sanitizer, scratch, cancelled
        self._kept: dict[tuple[str, str, Case, tuple[str, ...]], Checked] = {}

    def __call__(
        self,
        builder: Places,
        baseline: Built,
        candidate: Built,
        project: Project,
        tools: tuple[str, ...],
        case: Case,
        new_shapes: frozenset[str] | None = None,
    ) -> GateResult:
        """`tools` are those asked for, all when empty; `new_shapes` are the kernels that the candidate was seen to launch with
        another grid, block or shared memory (None: not known). Raises Cancelled."""
        if self._sanitizer is None:
            return GateResult("G4", GateState.UNTESTED, "compute-sanitizer is not on this machine")
        asked = tools or TOOLS
        if unknown := [t for t in asked if t not in TOOLS]:
            return GateResult("G4", GateState.UNTESTED, f"compute-sanitizer has no tool {unknown[0]}")
        result = _Result()
        for tool in asked:
            changed = changed_kernels(baseline, candidate, new_shapes) if tool in INSIDE_KERNELS else None
            if changed is not None and not changed.after:
                result.not_run[tool] = "not run again: same device code and launches as the original"
                continue
            old, new = _only(baseline, candidate, changed)
            before = self._checked(builder, baseline, project, tool, case, old)
            same = candidate.name == baseline.name and old == new
            after = before if same else self._checked(builder, candidate, project, tool, case, new)
            result.add(tool, (baseline, before), (candidate, after))
            if changed is not None and new:
                result.evidence[tool] |= {"kernels": sorted(changed.after), "launches": f"the first {LAUNCHES}"}
            if result.new:
                break
        missing = tuple(t for t in TOOLS if t not in result.evidence and t not in result.not_run)
        return result.gate(missing)

    def _checked(
        self, builder: Places, built: Built, project: Project, tool: str, case: Case, only: tuple[str, ...] | None
    ) -> Checked:
        """`only` are options that choose launches; None: there is none of them."""
        if only is None:
            return Checked()
        key = (built.name, tool, case, only)
        if key not in self._kept:
            try:
                self._kept[key] = self._run(builder, built, project, tool, case, only)
            except OSError as error:
                return Checked(problem=f"was not run: its folder cannot be copied: {error.strerror or error}")
        return self._kept[key]

    def _run(
        self, builder: Places, built: Built, project: Project, tool: str, case: Case, only: tuple[str, ...]
    ) -> Checked:
        assert self._sanitizer is not None
        command = command_for(project, built.run_command, case)
        if not command:
            return Checked(problem="was not run: nothing says what to run; give [run] command")
        home = self._scratch / "sanitizer-home"
        seconds = min(LONGEST_SECONDS, project.run.timeout * SLOWER)
        with builder.placed(built) as folder:
            remove_tree(home)
            home.mkdir(parents=True)
            directory = run_directory(folder, project)
            if directory is None:
                return Checked(problem=f"was not run: {no_directory(project)}")

            def run(whole: Sequence[str], cwd: Path = directory) -> Ended:
                return run_limited(
                    whole,
                    cwd=cwd,
                    env=clean_environment(project.run.env, home=home),
                    limits=Limits(seconds=seconds, memory_bytes=most_memory()),
                    cancel=self._cancelled,
                    scratch=folder,
                )

            found = check(self._sanitizer, tool, command, self._scratch / f"{tool}.xml", run, only)
        remove_if_possible(home)
        if self._cancelled():
            raise Cancelled
        return found


def _only(
    baseline: Built, candidate: Built, changed: ChangedKernels | None
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """What chooses the launches to look at in each version: () for all, None for none of them."""
    if changed is None:
        return (), ()
    before, after = filter_options(changed.before, baseline), filter_options(changed.after, candidate)
    if before is None or after is None:
        return (), ()
    first = ("--launch-count", str(LAUNCHES))
    return (*before, *first) if before else None, (*after, *first) if after else None


class _Result:
    """What has been found so far."""

    def __init__(self) -> None:
        self.evidence: dict[str, dict[str, Any]] = {}
        self.not_run: dict[str, str] = {}
        self.new: list[GateFinding] = []
        self.told: list[GateFinding] = []  # the original's, and those that could not be compared
        self.problems: list[str] = []

    def add(self, tool: str, before: tuple[Built, Checked], after: tuple[Built, Checked]) -> None:
        known = Counter(_identity(r, before[0]) for r in before[1].reports)
        seen: set[tuple[str, ...]] = set()
        found: list[GateFinding] = []
        for report in after[1].reports:
            key = _identity(report, after[0])
            if report.level == "info" or key in seen:
                continue
            seen.add(key)
            found.append(_finding(report, after[0], key in known))
        new = sum(not f.baseline for f in found)
        comparable = not (before[1].problem or before[1].cut or after[1].problem)
        self.new += [f for f in found if not f.baseline and comparable]
        self.told += [f for f in found if f.baseline or not comparable]
        self.evidence[tool] = {
            "reports": [len(before[1].reports), len(after[1].reports)],
            "new": new,
            "seconds": [round(before[1].seconds, 3), round(after[1].seconds, 3)],
        }
        for whose, checked in (("the original", before[1]), ("the version", after[1])):
            if checked.problem:
                self.problems.append(f"{tool} of {whose} {checked.problem}")
                break
            if checked.cut:
                self.problems.append(
                    f"{tool} of {whose} made more reports than are kept, so that they cannot be compared"
                )
                break

    def gate(self, missing: tuple[str, ...]) -> GateResult:
        evidence = {"tools": self.evidence, "not_run": {**self.not_run, **dict.fromkeys(missing, "not asked for")}}
        findings = (*self.new[:SHOWN], *self.told[:SHOWN])
        if self.new:
            first = self.new[0]
            more = f" and {len(self.new) - 1} more" if len(self.new) > 1 else ""
            evidence["not_run"] = {**self.not_run, **dict.fromkeys(missing, "not run: an earlier tool found something")}
            return GateResult("G4", GateState.FAILED, f"new report: {first.what}{more}", evidence, findings)
        if self.problems:
            return GateResult("G4", GateState.INCONCLUSIVE, self.problems[0], evidence, findings)
        if missing:
            reason = f"only a part was asked for; not run: {', '.join(missing)}"
            return GateResult("G4", GateState.UNTESTED, reason, evidence, findings)
        return GateResult("G4", GateState.PASSED, "", evidence, findings)


def _identity(report: Report, built: Built) -> tuple[str, ...]:
    return identity(report, lambda path, line: _source_line(built, path, line))


def _source_line(built: Built, path: str, line: int) -> str:
    relative = _in_tree(built, path)
    if not relative or line < 1:
        return ""
    try:
        lines = (built.tree / relative).read_bytes().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return lines[line - 1].strip() if line <= len(lines) else ""


def _in_tree(built: Built, path: str) -> str:
    """A path of a report relative to the built tree, "" for a file from elsewhere. Host frames have the path that the
    compiler was given, which is relative to where it ran."""
    if not path:
        return ""
    absolute = os.path.normpath(built.place / built.inside / path)
    relative = os.path.relpath(absolute, built.place)
    return relative if not relative.startswith("..") and (built.tree / relative).is_file() else ""


def _finding(report: Report, built: Built, baseline: bool) -> GateFinding:
    """At the innermost frame that lies in the program."""
    kernel = f" in {report.kernel}" if report.kernel else ""
    what = f"{report.tool}: {report.text}{kernel}"
    for place in (*(p for p in report.places if p.on_device), *host_frames(report)):
        relative = _in_tree(built, place.path)
        if relative:
            shown = os.path.normpath(Path(built.shown) / os.path.relpath(relative, built.inside))
            return GateFinding(what, shown, place.line, baseline)
    return GateFinding(what, baseline=baseline)
