"""The model that `--proposer llm` asks for: what is configured, what the user has to agree to first, what it may cost."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stitchcuda.analysis.contract.project import Project
from stitchcuda.server.cli.errors import CannotRun

if TYPE_CHECKING:
    from stitchcuda.agent.invention.asking import Asking
    from stitchcuda.agent.model.accounting import Budget
    from stitchcuda.agent.model.approvals import Approvals, Command, Question
    from stitchcuda.agent.model.opening import Configured
    from stitchcuda.agent.model.sending import LeftOut, Sendable

NOT_CONFIGURED = (
    "no model is configured: STITCHCUDA_LLM_URL names an OpenAI-compatible endpoint, STITCHCUDA_LLM_MODEL its model, "
    "STITCHCUDA_LLM_KEY the key; `stitchcuda doctor` checks it. --proposer rules needs none"
)


_TELLING = ("--format", "--progress")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the model (--proposer llm or both)")
    group.add_argument("--rounds", type=int, metavar="N", help="the most plans and versions to ask the model for")
    group.add_argument("--max-tokens", type=int, metavar="N", help="the most tokens to spend, sent and received")
    group.add_argument(
        "--max-cost", type=float, metavar="AMOUNT", help="the most money, in the currency of [llm] prices"
    )
    group.add_argument("--max-gpu", type=float, metavar="SECONDS", help="the most time of validating what it writes")
    group.add_argument(
        "--approve",
        action="append",
        default=[],
        metavar="TEXT",
        help="agree to this address or command, as the refusal names it; kept for this program",
    )
    group.add_argument(
        "--revoke", action="store_true", help="take back what was agreed to for this program, say what it was, and end"
    )
    group.add_argument(
        "--questions", action="store_true", help="print as JSON what is still to be agreed to, and end: nothing is sent"
    )


def revoke(path: str) -> str:
    """Takes back every yes for the program; what it was, a line each. Raises CannotRun."""
    from stitchcuda.agent.model.approvals import Approvals, ApprovalsError, Kind, visible

    try:
        taken = Approvals().revoke(Path(path))
    except ApprovalsError as error:
        raise CannotRun(str(error)) from None
    lines = [
        f"sending {', '.join(q.files) or 'no files'} to {q.subject}"
        if q.kind is Kind.SEND
        else f"executing {q.subject}"
        for q in taken
    ]
    return "".join(f"taken back: {visible(line)}\n" for line in lines) or "nothing was agreed to for this program\n"


def used(arguments: argparse.Namespace) -> bool:
    """Whether the model is asked. Raises CannotRun for its options without it."""
    if arguments.proposer != "rules":
        return True
    given = [
        flag
        for flag, value in (
            ("--rounds", arguments.rounds),
            ("--max-tokens", arguments.max_tokens),
            ("--max-cost", arguments.max_cost),
            ("--max-gpu", arguments.max_gpu),
            ("--approve", arguments.approve or None),
            ("--questions", arguments.questions or None),
        )
        if value is not None
    ]
    if given:
        raise CannotRun(f"{given[0]} is for the model: add --proposer llm or --proposer both")
    return False


@dataclass(frozen=True)
class _Wanted:
    """What a run would do with a model, before anybody agreed to it."""

    said: Configured
    root: Path
    files: Sequence[str]
    left_out: Sequence[LeftOut]
    commands: Sequence[Command]

    def questions(self, approvals: Approvals) -> Sequence[Question]:
        return self.said.questions(self.root, self.files, self.commands, approvals)


def _wanted(arguments: argparse.Namespace, path: str, project: Project, may_run: bool) -> _Wanted:
    """Raises CannotRun."""
    from stitchcuda.agent.model.connection import cannot_connect
    from stitchcuda.agent.model.endpoint import NoEndpoint
    from stitchcuda.agent.model.opening import configured

    root = Path(path)
    try:
        said = configured(root, budget=_budget(arguments))
    except NoEndpoint as error:
        raise CannotRun(str(error)) from None
    if said is None:
        raise CannotRun(NOT_CONFIGURED)
    if lacking := cannot_connect():
        raise CannotRun(lacking)
    prices = said.endpoint.prices
    if arguments.max_cost is not None and not (prices.input or prices.output):
        raise CannotRun("--max-cost: nothing says what the model costs; [llm] input_price and output_price do")
    found = _sendable(root, said)
    for one in found.left_out:
        print(f"not sent: {one.path} ({one.why})", file=sys.stderr)
    if not found.texts:
        raise CannotRun("there is no source that may be sent to a model")
    commands = _commands(root, project) if may_run else ()
    return _Wanted(said, root, tuple(sorted(found.texts)), found.left_out, commands)


def questions(arguments: argparse.Namespace, path: str, project: Project, *, may_run: bool) -> str:
    """What is still to be agreed to, as JSON for a program that asks the user and keeps the answers (`Approvals.record`).
    Raises CannotRun."""
    from stitchcuda.agent.model.approvals import SCHEMA, Approvals, ApprovalsError, question_to_value, visible

    wanted = _wanted(arguments, path, project, may_run)
    try:
        asked = wanted.questions(Approvals())
    except ApprovalsError as error:
        raise CannotRun(str(error)) from None
    value = {
        "schema": SCHEMA,
        "questions": [question_to_value(question) for question in asked],
        "left_out": [f"{visible(one.path)} ({one.why})" for one in wanted.left_out],
        "command": _agreeing(asked, arguments) if asked else "",
    }
    return json.dumps(value, indent=2) + "\n"


def asking_of(arguments: argparse.Namespace, path: str, project: Project, *, may_run: bool) -> Asking:
    """Who is asked, once the user has agreed. Raises CannotRun."""
    from stitchcuda.agent.invention.asking import Asking
    from stitchcuda.agent.model.approvals import Approvals, ApprovalsError
    from stitchcuda.agent.roles.templates import user_folder

    wanted = _wanted(arguments, path, project, may_run)
    said = wanted.said
    try:
        approvals = Approvals()
        if still := _still_open(wanted.questions(approvals), arguments, approvals):
            raise CannotRun(_refusal(still, arguments))
        agreed = said.agreed(wanted.root, wanted.files, wanted.commands, approvals)
    except ApprovalsError as error:
        raise CannotRun(str(error)) from None
    return Asking(
        make=agreed.model,
        endpoint=said.endpoint.base_url,
        model=said.endpoint.model,
        budget=said.budget,
        prices=said.endpoint.prices,
        never_send=said.never_send,
        secrets=agreed.secrets,
        prompts=user_folder(),
        files=agreed.files,
    )


def _budget(arguments: argparse.Namespace) -> Budget:
    from stitchcuda.agent.model.accounting import Budget

    for flag, value in (("--rounds", arguments.rounds), ("--max-tokens", arguments.max_tokens)):
        if value is not None and value < 1:
            raise CannotRun(f"{flag} {value}: give a number above 0")
    for flag, amount in (("--max-cost", arguments.max_cost), ("--max-gpu", arguments.max_gpu)):
        if amount is not None and not amount > 0:
            raise CannotRun(f"{flag} {amount:g}: give a number above 0")
    return Budget(arguments.rounds, arguments.max_tokens, arguments.max_cost, arguments.timeout, arguments.max_gpu)


def _sendable(root: Path, said: Configured) -> Sendable:
    """The files whose texts may be sent, and those that may not. Raises CannotRun."""
    from stitchcuda.agent.model.sending import sendable
    from stitchcuda.agent.proposing import read_base
    from stitchcuda.gpu_validate.analysed import analyse
    from stitchcuda.gpu_validate.version import Version

    version = Version(root)
    try:
        return sendable(root, read_base(version, analyse(version).sources), said.never_send)
    except OSError as error:
        raise CannotRun(f"{error.filename}: cannot be read ({error.strerror})") from None


def _commands(root: Path, project: Project) -> Sequence[Command]:
    """What the project file has executed."""
    from stitchcuda.agent.model.approvals import Command
    from stitchcuda.gpu_validate.project_file import find_file

    file, run = find_file(root), project.run
    # A number changes no command; any other text may be a command itself, and is seen before it is one.
    odd = [size for size in run.sizes if "{size}" in run.command and not re.fullmatch(r"\d[\w.,:-]*", size)]
    texts = (project.build.command, run.command, *(run.command.replace("{size}", size) for size in odd))
    return tuple(Command(text, str(file or "")) for text in dict.fromkeys(texts) if text)


def _still_open(
    questions: Sequence[Question], arguments: argparse.Namespace, approvals: Approvals
) -> tuple[Question, ...]:
    """Those that nobody agreed to, by the command's words or at the terminal; a yes is kept. After a no nothing more is asked."""
    left: list[Question] = []
    for question in questions:
        if question.subject in arguments.approve or (not left and _agreed(question)):
            approvals.record(question)
        else:
            left.append(question)
    return tuple(left)


def _agreed(question: Question) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{question.text}\n[y/N] ", end="", file=sys.stderr, flush=True)
    try:
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    except KeyboardInterrupt:
        return False


def _refusal(questions: Sequence[Question], arguments: argparse.Namespace) -> str:
    texts = "\n".join(q.text for q in questions)
    return f"{texts}\nNothing was sent or executed. If you agree: {_agreeing(questions, arguments)}"


def _agreeing(questions: Sequence[Question], arguments: argparse.Namespace) -> str:
    """The command at hand, with all its limits, that agrees to all of it as well; for a shell."""
    words = ["stitchcuda", "stitch", *_as_asked(arguments.words)]
    for subject in dict.fromkeys(q.subject for q in questions):
        words += [f"--approve={subject}"] if subject.startswith("-") else ["--approve", subject]
    return " ".join(map(_word, words))


def _as_asked(words: Sequence[str]) -> Iterator[str]:
    """The words of a command without how its result is told, which is the affair of who called it."""
    left = iter(words)
    for word in left:
        if word in _TELLING:
            next(left, None)
        elif word != "--questions" and not word.startswith(tuple(f"{option}=" for option in _TELLING)):
            yield word


def _word(text: str) -> str:
    """For a shell; what a terminal would not show as it is stands escaped."""
    if text.isprintable():
        return shlex.quote(text)
    shown = text.replace("\\", "\\\\").replace("'", "\\'")
    escaped = (c if c.isprintable() else f"\\U{ord(c):08x}" for c in shown)
    return f"$'{''.join(escaped)}'"
