"""`stitchcuda check PATH...`: reports hazards, applies fixes, compares with a baseline."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.analysis.index import Index
from stitchcuda.analysis.program.ir import Problem
from stitchcuda.analysis.rules import COMMENT_RULES
from stitchcuda.server.check_files import CheckFiles
from stitchcuda.server.cli import autofix, baseline, inputs, programs
from stitchcuda.server.cli.changed import ChangedSince
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.selection import CONFIDENCES, Selection, selection
from stitchcuda.server.cli.writing import replace_files
from stitchcuda.server.interrupting import ended_like_interrupted
from stitchcuda.server.report import github, gitlab, json, sarif, text
from stitchcuda.server.report.rows import Report, Row, numbered, rows
from stitchcuda.server.workers import map_in_processes, rare_collections

_SEVERITIES = ("error", "warning", "hint")
_MANY = 6  # programs from which on worker processes pay for their start
_EVERY_PROGRAM = {rule.code for rule in COMMENT_RULES if rule.every_program}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files and directories to check")
    parser.add_argument("--format", choices=("text", "json", "sarif", "github", "gitlab"), default="text")
    parser.add_argument(
        "--select",
        action="append",
        metavar="CODES",
        help="only these codes or groups (comma separated); all: every code",
    )
    parser.add_argument("--ignore", action="append", metavar="CODES", help="leave these out (comma separated)")
    parser.add_argument(
        "--confidence", choices=CONFIDENCES, default="likely", help="the least confidence reported (default: likely)"
    )
    parser.add_argument("--baseline", metavar="FILE", help="report only findings that this file does not list")
    parser.add_argument("--update-baseline", action="store_true", help="write the findings to the baseline and succeed")
    parser.add_argument(
        "--changed-since", metavar="REV", help="report only findings on lines that changed since this git revision"
    )
    parser.add_argument(
        "--fail-on",
        choices=_SEVERITIES,
        default="error",
        help="the least severity that gives exit code 1 (default: error)",
    )
    parser.add_argument("--fix", action="store_true", help="apply the preferred fixes that a new analysis confirms")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="processes for a tree of many programs (default: one a core)"
    )


def run(arguments: argparse.Namespace) -> int:
    """0: nothing at or above the bar, 1: something, 2: a path that was asked for could not be used, or stitchcuda itself
    failed on a part."""
    projects = CheckFiles([".", *arguments.paths])
    chosen = selection(arguments.select, arguments.ignore, arguments.confidence, projects)
    if arguments.update_baseline and not arguments.baseline:
        raise CannotRun("--update-baseline needs --baseline FILE to write to")
    if arguments.update_baseline and arguments.changed_since is not None:
        raise CannotRun("--update-baseline writes all findings down; leave --changed-since out")
    if arguments.jobs is not None and arguments.jobs < 1:
        raise CannotRun("--jobs needs a number from 1 on")
    known = frozenset() if arguments.update_baseline or not arguments.baseline else baseline.load(arguments.baseline)
    found = inputs.find(arguments.paths)
    mistakes = projects.mistakes(found.files)
    if mistakes:
        raise CannotRun("\n".join(mistakes))
    changed = ChangedSince(arguments.changed_since, arguments.paths) if arguments.changed_since is not None else None
    plan = programs.plan(found.files, arguments.paths)
    fixing = _Fixing(chosen, known, changed, frozenset(f for f in found.files if not projects.of(f).excluded))
    with rare_collections():
        outcome = _check(plan, fixing if arguments.fix else None, arguments.jobs)
    shown = tuple(r for row in outcome.rows if (r := chosen.shown(row)) is not None)
    if arguments.update_baseline:
        baseline.save(arguments.baseline, shown)
        print(f"{arguments.baseline}: {len(shown)} findings", file=sys.stderr)
    if changed is not None:
        shown = tuple(r for r in shown if changed.touches(r))
    old = tuple(r for r in shown if r.fingerprint in known)
    shown = tuple(r for r in shown if r.fingerprint not in known)
    problems = dict.fromkeys((*found.problems, *plan.problems, *outcome.problems))
    told = tuple(p for p in problems if p.internal or p.path in arguments.paths or not projects.of(p.path).excluded)
    usable = not (found.unusable or plan.unusable or any(p.internal for p in outcome.problems))
    _print(Report(shown, told, old), arguments.format, usable)
    if arguments.fix:
        _tell_fixes(outcome)
    if not usable:
        return 2
    if arguments.update_baseline:
        return 0
    bar = _SEVERITIES[: _SEVERITIES.index(arguments.fail_on) + 1]
    return 1 if any(r.severity in bar for r in shown) else 0


@dataclass(frozen=True)
class _Fixing:
    """Fixes are for what is reported, and change only files that were asked for."""

    chosen: Selection
    known: frozenset[str]
    changed: ChangedSince | None
    writable: frozenset[str]

    def wanted(self, found: Iterable[Row]) -> Callable[[Row], bool]:
        """Given the findings before the first fix: lines are compared with the revision while they are those of the disk."""
        changed = self.changed
        old = set() if changed is None else {row.fingerprint for row in found if not changed.touches(row)}
        left_alone = self.known | old
        return lambda row: row.fingerprint not in left_alone and self.chosen.shown(row) is not None


@dataclass(frozen=True)
class _Outcome:
    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]
    fixed: tuple[str, ...] = ()  # a line each
    changed: frozenset[str] = frozenset()


def check_program(group: programs.Group) -> _Outcome:
    """One program; runs in a worker process when there are many."""
    return _check_program(group, None)


def _check_program(group: programs.Group, fixing: _Fixing | None) -> _Outcome:
    index = Index()
    texts = group.texts()
    for path, content in texts.items():
        index.put(path, content)
    analysis = index.analyse()
    found = rows(analysis)
    if fixing is None or not found:
        return _Outcome(found, analysis.problems)
    result = autofix.fix(index, texts, fixing.wanted(found), fixing.writable.__contains__)
    _write(texts, result.texts)
    told = (f"{row.place.path}:{row.place.line}: fixed {row.code}: {change.title}" for row, change in result.done)
    return _Outcome(result.rows, analysis.problems, tuple(told), frozenset(result.texts))


def _check(plan: programs.Plan, fixing: _Fixing | None, jobs: int | None) -> _Outcome:
    """All programs. A finding in a file that several programs share is reported once; that a comment there silences nothing must
    hold in each of them."""
    holders = Counter(path for group in plan.groups for path in {*group.sources, *group.context})
    reports: Counter[tuple[object, ...]] = Counter()
    seen: dict[tuple[object, ...], Row] = {}
    problems: list[Problem] = []
    changed: set[str] = set()
    fixed: list[str] = []
    for outcome in _outcomes(plan, fixing, jobs):
        if isinstance(outcome, Problem):
            problems.append(outcome)
            continue
        problems += outcome.problems
        changed |= outcome.changed
        fixed += outcome.fixed
        for row in outcome.rows:
            seen.setdefault((row.code, row.place, row.message), row)
            reports[row.code, row.place, row.message] += 1
    for key, row in list(seen.items()):
        if row.code in _EVERY_PROGRAM and reports[key] < holders[row.place.path]:
            del seen[key]
    ordered = sorted(seen.values(), key=lambda r: (r.place.path, r.place.line, r.place.column, r.code, r.message))
    return _Outcome(numbered(ordered), tuple(problems), tuple(fixed), frozenset(changed))


def _outcomes(plan: programs.Plan, fixing: _Fixing | None, jobs: int | None) -> Iterator[_Outcome | Problem]:
    if fixing is None and len(plan.groups) >= _MANY:
        with ended_like_interrupted():  # so that the processes end, too
            yield from map_in_processes(check_program, plan.groups, jobs, cost=lambda group: group.size)
    else:
        yield from (_check_program(group, fixing) for group in plan.groups)


def _write(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """Writes what was fixed, all files or none: a fix can span files."""
    mark = b"\xef\xbb\xbf"
    whole: dict[str, bytes | None] = {}
    for path, content in after.items():
        try:
            marked = Path(path).read_bytes().startswith(mark)
        except OSError as error:
            raise CannotRun(
                f"{path}: cannot be read any more ({error.strerror}); no fix was written, run again"
            ) from None
        whole[path] = mark + content if marked else content
    replace_files(whole, {path: (before[path], mark + before[path]) for path in whole})


def _print(report: Report, form: str, usable: bool) -> None:
    if form == "json":
        sys.stdout.write(json.render(report))
    elif form == "sarif":
        from stitchcuda.server.cli.dispatch import version

        sys.stdout.write(sarif.render(report, version=version(), successful=usable))
    elif form == "github":
        sys.stdout.write(github.render(report))
    else:
        colour = form == "text" and _colour()
        sys.stdout.write(gitlab.render(report) if form == "gitlab" else text.render(report, colour=colour))
        for problem in report.problems:
            line = f":{problem.line}" if problem.line > 0 else ""
            print(f"{problem.path}{line}: note: {problem.what}: {problem.consequence}", file=sys.stderr)


def _tell_fixes(outcome: _Outcome) -> None:
    """Also those of findings that a fix brought about, such as a wait that it made needless."""
    for line in outcome.fixed:
        print(line, file=sys.stderr)
    fixed, changed = len(outcome.fixed), len(outcome.changed)
    findings, files = "finding" if fixed == 1 else "findings", "file" if changed == 1 else "files"
    print(f"fixed {fixed} {findings} in {changed} {files}", file=sys.stderr)


def _colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
