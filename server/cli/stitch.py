"""`stitchcuda stitch PATH`: from an intent to a validated version, as a diff, written files or JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from stitchcuda.agent import journal
from stitchcuda.agent.implementing.real_bench import real_bench
from stitchcuda.agent.journal import JournalError
from stitchcuda.agent.machinery import real_machinery
from stitchcuda.agent.outcome import Candidate, Kind
from stitchcuda.agent.proposing import Proposed
from stitchcuda.agent.roles.templates import TemplateError
from stitchcuda.agent.stitching import CannotStart, Request, Stitched, stitch
from stitchcuda.agent.transform_names import IDS, NAMED
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.server.cli import applying, inputs, model_options, own_errors
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.progress_lines import MODES, ProgressLines
from stitchcuda.server.cli.request import (
    check_mentioned,
    check_scope,
    check_seconds,
    contract_of,
    project_of,
    show_questions,
)
from stitchcuda.server.cli.writing import replace_files
from stitchcuda.server.interrupting import ended_like_interrupted
from stitchcuda.server.report import stitched

_GATES = 8  # steps of one validation, about


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the program: its folder, or its one source file")
    parser.add_argument("--intent", metavar="TEXT", help="what to reach, in words; default: [contract] intent")
    parser.add_argument("--scope", action="append", metavar="F", help="a function that the contract is about")
    parser.add_argument(
        "--only",
        action="append",
        choices=IDS,
        metavar="TRANSFORM",
        help=f"only this rewrite; may be given several times: {'; '.join(f'{n.id} ({n.title})' for n in NAMED)}",
    )
    parser.add_argument("--within", action="append", metavar="F", help="only what the rewrites change in this function")
    parser.add_argument("--proposer", choices=("rules", "llm", "both"), default="rules", help="who proposes changes")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="the most time to spend")
    parser.add_argument(
        "--no-run", action="store_true", help="build and run nothing: a preview that rests on the proof alone"
    )
    parser.add_argument("--progress", choices=MODES, default="auto", help="how progress is shown on stderr")
    model_options.add_arguments(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--diff", action="store_true", help="print the change as a unified diff and nothing else")
    output.add_argument("--write", action="store_true", help="write an accepted version into the sources")
    output.add_argument("--out", metavar="DIR", help="write the changed files below this folder instead")


def run(arguments: argparse.Namespace) -> int:
    """0: an answer was reached, 1: the original does not build or run, 2: it could not start."""
    if arguments.revoke:
        sys.stdout.write(model_options.revoke(arguments.path))
        return 0
    with_model = model_options.used(arguments)
    check_seconds(arguments.timeout)
    if with_model and (arguments.only or arguments.within):
        raise CannotRun("--only and --within are for the rules: leave --proposer out")
    if arguments.out and _inside(Path(arguments.path), Path(arguments.out)):
        raise CannotRun(f"--out {arguments.out} lies in the program; --write changes the program itself")
    request = request_of(arguments.path, arguments.intent, arguments.scope, arguments.timeout, no_run=arguments.no_run)
    request = _restricted(request, arguments)
    if arguments.questions:
        sys.stdout.write(model_options.questions(arguments, arguments.path, request.project, may_run=request.may_run))
        return 0
    show_questions(request.contract)
    if with_model:
        asking = model_options.asking_of(arguments, arguments.path, request.project, may_run=request.may_run)
        request = replace(request, rules=arguments.proposer == "both", asking=asking)
    original = own_errors.analysed(request.root)
    done = run_request(request, ProgressLines(sys.stderr, arguments.progress, of=4 + _GATES))
    _show_anchored(done, request)
    errors = own_errors.errors_of(original, arguments.path)
    value = {**done.value, **stitched.places_as_given(done.value, arguments.path), "errors": errors}
    if not (value["units"] or value["refused"] or own_errors.has_work(original)):
        value["reason"] += (
            f": no launch, copy or other call of CUDA is reached in {', '.join(sorted(original.sources)[:5])}"
        )
    note = own_errors.sentence(errors, arguments.path)
    written = _write(done, arguments)
    if arguments.format == "json":
        print(json.dumps(value, indent=2))
    elif arguments.diff:
        sys.stdout.write(stitched.diff_of(done, arguments.path))
    else:
        sys.stdout.write(stitched.text(done, arguments.path, reason=value["reason"], note=note))
    if arguments.diff or arguments.format == "json":
        print(f"{done.result.outcome.value}: {value['reason']}", file=sys.stderr)
        if note:
            print(note, file=sys.stderr)
        if done.result.invented is not None and done.result.invented.problem:
            print(f"the model: {done.result.invented.problem}", file=sys.stderr)
    if written:
        print(written, file=sys.stderr)
    return 1 if done.result.outcome is Kind.FAILED else 0


def _restricted(request: Request, arguments: argparse.Namespace) -> Request:
    """With what `--only` and `--within` say. Raises CannotRun."""
    only, within = tuple(dict.fromkeys(arguments.only or ())), tuple(dict.fromkeys(arguments.within or ()))
    if forbidden := [name for name in only if name in request.contract.forbid]:
        raise CannotRun(f"--only {forbidden[0]}: the contract forbids it")
    if within:
        check_mentioned("--within", within, inputs.find([arguments.path]).files)
    return replace(request, only=only, within=within)


def _show_anchored(done: Stitched, request: Request) -> None:
    """What the model left open in the words, or why it was of no help with them, on stderr."""
    anchored = done.asked.anchored if done.asked is not None else None
    if anchored is None:
        return
    if anchored.problem:
        print(f"the model did not help to read the request: {anchored.problem}", file=sys.stderr)
    new = [q for q in anchored.contract.questions if q not in request.contract.questions]
    show_questions(Contract(questions=tuple(new)))


def request_of(
    path: str,
    intent: str | None,
    scope: list[str] | None,
    seconds: float | None,
    *,
    no_run: bool = False,
    reference: Mapping[str, bytes] | None = None,
) -> Request:
    """The request that the words and the project file make. Raises CannotRun."""
    from stitchcuda.server.cli.dispatch import version

    found = inputs.find([path])
    if found.unusable:
        raise CannotRun(f"{found.problems[0].path}: {found.problems[0].what}")
    own_errors.must_use_cuda(path, found.files)
    project = project_of(path)
    contract = contract_of(project, intent, scope)
    check_scope(contract, found.files)
    words = project.contract.intent if intent is None else intent
    return Request(Path(path), contract, project, seconds, version(), not no_run, words, reference)


@dataclass
class Listening:
    """Shows the steps of the loop as progress."""

    progress: ProgressLines

    def step(self, kind: str, sentence: str, data: Mapping[str, object]) -> None:
        if kind == "judge":
            self.progress.more(_GATES)
        if kind == "ask":
            self.progress.more(2 + _GATES)
        if kind == "anchor":
            self.progress.more(2)
        if kind != "end":
            self.progress.step(sentence)

    def proposed(self, proposed: Proposed) -> None:
        """The steps tell."""

    def judged(self, candidate: Candidate) -> None:
        """The steps tell."""


def run_request(request: Request, progress: ProgressLines) -> Stitched:
    """Runs a request with the real machinery. Raises CannotRun."""
    try:
        with ended_like_interrupted():
            return stitch(request, Listening(progress), real_machinery, bench=real_bench, tell=progress.step)
    except (JournalError, CannotStart, TemplateError) as error:
        raise CannotRun(str(error)) from None
    finally:
        progress.end()


def _write(done: Stitched, arguments: argparse.Namespace) -> str:
    """Writes what was asked for; gives the sentence that says what was done."""
    if not (arguments.write or arguments.out):
        return ""
    after = done.after
    if not after:
        return "nothing to write"
    if done.result.outcome is Kind.NOT_VALIDATED and arguments.write:
        return (
            "not written: this version was not validated on this machine. --diff shows it; "
            f"`stitchcuda runs apply {done.folder.name} --unvalidated` writes it all the same"
        )
    if arguments.write:
        written = write_run(done)
        folder = stitched.folder_of(arguments.path)
    else:
        folder = arguments.out
        changes = {os.path.join(folder, *path.split("/")): text for path, text in after.items()}
        if there := [path for path in changes if os.path.exists(path)]:
            raise CannotRun(f"{there[0]}: is there already; --out takes a folder that does not hold the files")
        written = replace_files(changes, {path: [None] for path in changes})
    return f"wrote {len(written)} file{'s' if len(written) != 1 else ''} in {folder or '.'}"


def write_run(done: Stitched) -> tuple[str, ...]:
    """Writes the best version into the program, so that `runs revert` can take it back. Raises CannotRun."""
    best = done.result.best
    try:
        return applying.apply(journal.read(done.folder), best.units if best is not None else ())
    except JournalError as error:
        raise CannotRun(str(error)) from None


def _inside(program: Path, folder: Path) -> bool:
    root = (program if program.is_dir() else program.parent).resolve()
    return folder.resolve().is_relative_to(root)
