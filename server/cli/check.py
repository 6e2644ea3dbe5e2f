"""`stitchcuda check PATH...`: reports hazards, applies fixes, compares with a baseline."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from stitchcuda.analysis.index import Index
from stitchcuda.analysis.program.ir import Problem
from stitchcuda.analysis.rules import BY_CODE
from stitchcuda.server.cli import autofix, baseline, inputs, programs
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.writing import must_be_replaceable, replace_file
from stitchcuda.server.report import github, json, sarif, text
from stitchcuda.server.report.rows import Report, Row, numbered, rows
from stitchcuda.server.workers import map_in_processes

_CONFIDENCES = ("certain", "likely", "possible")
_SEVERITIES = ("error", "warning", "hint")
_MANY = 6  # programs from which on worker processes pay for their start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files and directories to check")
    parser.add_argument("--format", choices=("text", "json", "sarif", "github"), default="text")
    parser.add_argument(
        "--select", action="append", metavar="CODES", help="only these codes (comma separated); all: every code"
    )
    parser.add_argument("--ignore", action="append", metavar="CODES", help="leave these codes out (comma separated)")
    parser.add_argument(
        "--confidence", choices=_CONFIDENCES, default="likely", help="the least confidence reported (default: likely)"
    )
    parser.add_argument("--baseline", metavar="FILE", help="report only findings that this file does not list")
    parser.add_argument("--update-baseline", action="store_true", help="write the findings to the baseline and succeed")
    parser.add_argument(
        "--fail-on",
        choices=_SEVERITIES,
        default="error",
        help="the least severity that gives exit code 1 (default: error)",
    )
    parser.add_argument("--fix", action="store_true", help="apply the preferred fixes that a new analysis confirms")


def run(arguments: argparse.Namespace) -> int:
    """0: nothing at or above the bar, 1: something, 2: a path that was asked for could not be used, or stitchcuda itself
    failed on a part."""
    wanted = _selection(arguments)
    if arguments.update_baseline and not arguments.baseline:
        raise CannotRun("--update-baseline needs --baseline FILE to write to")
    known = frozenset() if arguments.update_baseline or not arguments.baseline else baseline.load(arguments.baseline)
    found = inputs.find(arguments.paths)
    plan = programs.plan(found.files, arguments.paths)
    outcome = _check(plan, _Fixing(wanted, frozenset(found.files)) if arguments.fix else None)
    shown = tuple(r for r in outcome.rows if wanted(r))
    if arguments.update_baseline:
        baseline.save(arguments.baseline, shown)
        print(f"{arguments.baseline}: {len(shown)} findings", file=sys.stderr)
    shown = tuple(r for r in shown if r.fingerprint not in known)
    problems = tuple(dict.fromkeys((*found.problems, *plan.problems, *outcome.problems)))
    usable = not (found.unusable or plan.unusable or any(p.internal for p in outcome.problems))
    _print(Report(shown, problems), arguments.format, usable)
    if arguments.fix:
        print(f"fixed {outcome.fixed} findings in {len(outcome.changed)} files", file=sys.stderr)
    if not usable:
        return 2
    if arguments.update_baseline:
        return 0
    bar = _SEVERITIES[: _SEVERITIES.index(arguments.fail_on) + 1]
    return 1 if any(r.severity in bar for r in shown) else 0


@dataclass(frozen=True)
class _Fixing:
    wanted: Callable[[Row], bool]
    writable: frozenset[str]


@dataclass(frozen=True)
class _Outcome:
    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]
    fixed: int = 0
    changed: frozenset[str] = frozenset()


def check_program(group: programs.Group) -> _Outcome:
    """One program; runs in a worker process when there are many."""
    return _check_program(group, None)


def _check_program(group: programs.Group, fixing: _Fixing | None) -> _Outcome:
    index = Index()
    texts: dict[str, bytes] = {}
    for path in chain(group.sources, group.context):
        content = inputs.read(path).text
        if content is not None:
            texts[path] = content
            index.put(path, content)
    analysis = index.analyse()
    found = rows(analysis)
    if fixing is None or not found:
        return _Outcome(found, analysis.problems)
    result = autofix.fix(index, texts, fixing.wanted, fixing.writable.__contains__)
    _write(texts, result.texts)
    return _Outcome(result.rows, analysis.problems, result.count, frozenset(result.texts))


def _check(plan: programs.Plan, fixing: _Fixing | None) -> _Outcome:
    """All programs. A finding in a file that several programs share is reported once."""
    seen: dict[tuple[object, ...], Row] = {}
    problems: list[Problem] = []
    changed: set[str] = set()
    count = 0
    outcomes: Iterable[_Outcome | Problem]
    if fixing is None and len(plan.groups) >= _MANY:
        outcomes = map_in_processes(check_program, plan.groups)
    else:
        outcomes = (_check_program(group, fixing) for group in plan.groups)
    for outcome in outcomes:
        if isinstance(outcome, Problem):
            problems.append(outcome)
            continue
        problems += outcome.problems
        changed |= outcome.changed
        count += outcome.fixed
        for row in outcome.rows:
            seen.setdefault((row.code, row.place, row.message), row)
    ordered = sorted(seen.values(), key=lambda r: (r.place.path, r.place.line, r.place.column, r.code, r.message))
    return _Outcome(numbered(ordered), tuple(problems), count, frozenset(changed))


def _write(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    mark = b"\xef\xbb\xbf"
    whole: dict[str, bytes] = {}
    for path, content in after.items():  # all are looked at before the first is written: a fix can span files
        try:
            on_disk = Path(path).read_bytes()
        except OSError as error:
            raise CannotRun(
                f"{path}: cannot be read any more ({error.strerror}); no fix was written, run again"
            ) from None
        if on_disk.removeprefix(mark) != before[path]:
            raise CannotRun(f"{path}: changed while it was checked; no fix was written, run again")
        must_be_replaceable(path)
        whole[path] = mark + content if on_disk.startswith(mark) else content
    for path, content in whole.items():
        replace_file(path, content)


def _selection(arguments: argparse.Namespace) -> Callable[[Row], bool]:
    codes = {rule.code for rule in BY_CODE.values() if rule.default}
    if arguments.select:
        names = _codes(arguments.select)
        codes = set(BY_CODE) if "all" in names else set(names)
    codes -= set(BY_CODE) if arguments.ignore and "all" in _codes(arguments.ignore) else set()
    codes -= set(_codes(arguments.ignore or []))
    levels = _CONFIDENCES[: _CONFIDENCES.index(arguments.confidence) + 1]
    return lambda row: row.code in codes and row.confidence in levels


def _codes(lists: Sequence[str]) -> list[str]:
    names = [name.strip() for text in lists for name in text.split(",") if name.strip()]
    for name in names:
        if name != "all" and name not in BY_CODE:
            near = difflib.get_close_matches(name, BY_CODE, 1)
            hint = f"did you mean {near[0]}?" if near else f"the codes are {', '.join(BY_CODE)}"
            raise CannotRun(f"no finding has the code {name!r}; {hint}")
    return names


def _print(report: Report, form: str, usable: bool) -> None:
    if form == "json":
        sys.stdout.write(json.render(report))
    elif form == "sarif":
        from stitchcuda.server.cli.dispatch import version

        sys.stdout.write(sarif.render(report, version=version(), successful=usable))
    elif form == "github":
        sys.stdout.write(github.render(report))
    else:
        sys.stdout.write(text.render(report, colour=_colour()))
        for problem in report.problems:
            line = f":{problem.line}" if problem.line > 0 else ""
            print(f"{problem.path}{line}: note: {problem.what}: {problem.consequence}", file=sys.stderr)


def _colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
