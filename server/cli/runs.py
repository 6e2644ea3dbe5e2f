"""`stitchcuda runs`: the journal of past runs: look, take a choice of units, take it back, make every version again."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from stitchcuda.agent import journal, versions
from stitchcuda.agent.implementing import replaying as implementing
from stitchcuda.agent.invention import anchoring
from stitchcuda.agent.invention.replaying import Remade, remake, together
from stitchcuda.agent.journal import JournalError, Made, Record, Run
from stitchcuda.agent.loop import reason_of
from stitchcuda.agent.machinery import real_machinery, static_analyser
from stitchcuda.agent.model.transcript import TranscriptError
from stitchcuda.agent.outcome import Stop, why_lacking
from stitchcuda.agent.proposing import declared_of
from stitchcuda.agent.roles.templates import TemplateError, user_folder
from stitchcuda.agent.stitching import CannotStart, Request
from stitchcuda.agent.transforms import TRANSFORMS
from stitchcuda.agent.versions import MissingParents, UnitError
from stitchcuda.analysis.contract.jsonread import SchemaError
from stitchcuda.analysis.contract.types import contract_from_json
from stitchcuda.gpu_validate.project_file import ProjectError, find_project
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.verdict import VerdictState
from stitchcuda.gpu_validate.verdict_json import verdict_from_json
from stitchcuda.gpu_validate.version import Version
from stitchcuda.server.cli import applying
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.progress_lines import ProgressLines
from stitchcuda.server.cli.stitch import Listening
from stitchcuda.server.interrupting import ended_like_interrupted
from stitchcuda.server.report import diff, stitched
from stitchcuda.server.report.verdicts import verdict_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, summary in (
        ("list", "the runs that are kept, oldest first"),
        ("show", "what a run ended in, its units (* in the best version) and the verdict"),
        ("diff", "the change as a unified diff, to be applied in the program's folder"),
        ("apply", "write a choice of units into the program; validated first when it never was"),
        ("revert", "give the program its original bytes back"),
        ("replay", "make every version again from the journal and compare the bytes"),
    ):
        action = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name != "list":
            action.add_argument("run", nargs="?", metavar="RUN", help="its name or part of it; default: the newest")
        if name in ("list", "show", "replay"):
            action.add_argument("--format", choices=("text", "json"), default="text")
        if name in ("diff", "apply"):
            action.add_argument(
                "--units",
                metavar="ID,...",
                help="these units, with all they build on; default: those of the best version",
            )
        if name == "apply":
            action.add_argument("--unvalidated", action="store_true", help="write it although it was not validated")


def run(arguments: argparse.Namespace) -> int:
    """0: done, 1: the choice was rejected, or a replayed version differs, 2: it could not be done."""
    try:
        return _ACTIONS[arguments.action](arguments)
    except (JournalError, UnitError, CannotStart, TemplateError, TranscriptError) as error:
        raise CannotRun(str(error)) from None


def _list(arguments: argparse.Namespace) -> int:
    records, wrong = journal.read_all()
    if arguments.format == "json":
        rows = [
            {
                "run": r.name,
                "root": str(r.root),
                "started": r.started,
                "outcome": r.result["outcome"] if r.result is not None else None,
                "units": len(r.units),
                "best": list(r.best),
                "run_dir": str(r.folder),
            }
            for r in records
        ]
        print(json.dumps({"schema": 1, "runs": rows}, indent=2))
    else:
        for record in records:
            print(stitched.run_line(record))
        if not records:
            print(f"no run is kept in {journal.runs_folder()}")
    for message in wrong:
        print(message, file=sys.stderr)
    return 0


def _show(arguments: argparse.Namespace) -> int:
    record = journal.find(arguments.run)
    if arguments.format == "json":
        if record.result is None:
            raise CannotRun(
                f"{record.folder}: the run did not end, so there is no result; its steps are in events.jsonl"
            )
        print(json.dumps(dict(record.result), indent=2))
        return 0
    print(stitched.run_line(record))
    if record.result is not None:
        print(f"{record.result['outcome']}: {record.result['reason']}")
    for line in stitched.journal_unit_lines(record.units, record.best):
        print(line)
    if record.result is not None and record.result["verdict"] is not None:
        print(f"verdict: {verdict_text(verdict_from_json(record.result['verdict']))}", end="")
    for refusal in record.refusals:
        print(f"refused {refusal.path}:{refusal.line}: {refusal.transform}: {refusal.reason}")
    if record.applied:
        print(f"last applied: {', '.join(record.applied[-1].units)}")
    print(f"kept in {record.folder}")
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    record = journal.find(arguments.run)
    base = journal.base_texts(record)
    sys.stdout.write(diff.unified(base, versions.compose(base, record.units, _chosen(record, arguments.units))))
    return 0


def _apply(arguments: argparse.Namespace) -> int:
    record = journal.find(arguments.run)
    chosen = _chosen(record, arguments.units)
    if not chosen:
        raise CannotRun(f"{record.name}: the run has no best version; name units with --units")
    if not arguments.unvalidated and not _validated(record, chosen):
        print("this choice was not validated as such; validating it", file=sys.stderr)
        reason = _validate(record, chosen)
        if reason is None:
            record = journal.read(record.folder)
        else:
            rejected, why = reason
            if rejected:
                print(f"rejected, nothing was written: {why}", file=sys.stderr)
                return 1
            raise CannotRun(f"not validated, nothing was written: {why}; --unvalidated writes it all the same")
    written = applying.apply(record, chosen)
    for path in written:
        print(path)
    print(f"files written: {len(written)}; `stitchcuda runs revert {record.name}` takes it back", file=sys.stderr)
    return 0


def _revert(arguments: argparse.Namespace) -> int:
    record = journal.find(arguments.run)
    if not record.applied:
        raise CannotRun(f"{record.name}: nothing of this run was written into the program")
    written = applying.revert(record)
    for path in written:
        print(path)
    print(f"files with their original bytes again: {len(written)}", file=sys.stderr)
    return 0


def _replay(arguments: argparse.Namespace) -> int:
    record = journal.find(arguments.run)
    done = journal.replay(record)
    decisions = _decisions(record)
    same = not any(r.differing for r in done) and (decisions is None or not decisions.difference)
    if arguments.format == "json":
        rows = [{"units": list(r.made.units), "digest": r.made.digest, "differing": list(r.differing)} for r in done]
        value = {"schema": 1, "run": record.name, "same": same, "versions": rows, "decisions": None}
        if decisions is not None:
            value["decisions"] = {
                "same": decisions.decisions,
                "difference": decisions.difference,
                "reworded": list(decisions.reworded),
            }
        print(json.dumps(value, indent=2))
        return 0 if same else 1
    for r in done:
        what = f"differs in {', '.join(r.differing)}" if r.differing else "same bytes"
        print(f"{r.made.digest}  units: {len(r.made.units)}  {what}")
    if decisions is not None:
        print(f"decisions of the model's part: {decisions.decisions} as recorded")
        if decisions.difference:
            print(f"differs: {decisions.difference}")
        if decisions.reworded:
            print(f"requests that are worded otherwise now: {len(decisions.reworded)}")
    print(f"versions made again: {len(done)}, from {record.folder}", file=sys.stderr)
    return 0 if same else 1


def _decisions(record: Record) -> Remade | None:
    """The model's parts of the run once more; None when none was asked."""
    parts = []
    if (asked := anchoring.read(record)) is not None:
        parts.append(anchoring.remake(record, asked, user_folder()))
    if (recorded := implementing.read(record)) is not None:
        parts.append(implementing.remake(record, recorded, real_tools(), user_folder()))
    elif journal.invention(record) is not None:
        parts.append(remake(record, static_analyser(), TRANSFORMS, user_folder()))
    return together(parts) if parts else None


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "diff": _diff,
    "apply": _apply,
    "revert": _revert,
    "replay": _replay,
}


def _chosen(record: Record, words: str | None) -> tuple[str, ...]:
    """The units named, by their ids or the only id that starts so; they must hold together. Raises CannotRun."""
    if words is None:
        return record.best
    ids = []
    for word in filter(None, (w.strip() for w in words.split(","))):
        fitting = [u.id for u in record.units if u.id.startswith(word)]
        if len(fitting) != 1:
            known = ", ".join(u.id for u in record.units) or "none"
            raise CannotRun(f"--units {word}: {'several units' if fitting else 'no unit'} of that id; they are {known}")
        ids += fitting
    if missing := versions.missing_parents(record.units, ids):
        raise CannotRun(str(MissingParents(missing)))
    return tuple(u.id for u in record.units if u.id in ids)


def _validated(record: Record, chosen: tuple[str, ...]) -> bool:
    """Whether the hub accepted exactly this choice. What a run from elsewhere says of itself does not count."""
    if record.folder.resolve().parent != journal.runs_folder().resolve():
        return False
    made = next((m for m in record.made if m.units == chosen), None)
    verdict = journal.verdict(record, made.digest) if made is not None else None
    return verdict is not None and verdict.get("state") == VerdictState.ACCEPTED.value


def _validate(record: Record, chosen: tuple[str, ...]) -> tuple[bool, str] | None:
    """Has the hub judge the choice and keeps the verdict; None when it is accepted, else whether it was rejected, and why.
    Raises CannotRun when the program is not the one of the run."""
    base = journal.base_texts(record)
    baseline = Version(record.root, base)
    for path, digest in record.files.items():
        try:
            now = journal.text_digest(baseline.read(path))
        except OSError as error:
            raise CannotRun(
                f"{path}: cannot be read ({error.strerror}); the program is not the one of the run"
            ) from None
        if now != digest:
            raise CannotRun(f"{path}: has been changed since the run; stitch the program anew")
    try:
        project = find_project(record.root)
        contract = contract_from_json(dict(record.contract or {"schema": 1}))
    except (ProjectError, SchemaError) as error:
        raise CannotRun(str(error)) from None
    texts = versions.compose(base, record.units, chosen)
    version = baseline.with_texts(texts)
    units = [u for u in record.units if u.id in chosen]
    progress = ProgressLines(sys.stderr, "auto", of=10)
    listener = Listening(progress)

    def never() -> Stop | None:
        return None

    try:
        with (
            ended_like_interrupted(),
            real_machinery(Request(record.root, contract, project), progress.step, lambda: False) as machinery,
        ):
            judge = machinery.parts(listener, never).judge
            measured = judge.measure()
            if measured.problem:
                return False, measured.problem
            verdict = judge.judge(version, declared_of(units))
            value = machinery.verdict(verdict)
    finally:
        progress.end()
    kept = Run(record.folder)
    digest = Version(record.root, texts).digest
    kept.verdict(digest, value)
    files = {path: journal.text_digest(text) for path, text in texts.items()}
    kept.made([*(m for m in record.made if m.digest != digest), Made(chosen, digest, files)])
    if verdict.state is VerdictState.ACCEPTED:
        return None
    if verdict.state is VerdictState.REJECTED:
        return True, reason_of(verdict)
    return False, why_lacking(verdict) or reason_of(verdict)
