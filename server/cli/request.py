"""What the commands are asked for in the same words: a project, a contract, a time to spend."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stitchcuda.analysis.contract.intent import parse_intent
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.project_file import ProjectError, find_project
from stitchcuda.server.cli import inputs
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.sources import QUOTED_INCLUDE


def project_of(path: str) -> Project:
    """What `stitchcuda.toml` says of the program. Raises CannotRun."""
    try:
        return find_project(Path(path))
    except ProjectError as error:
        raise CannotRun(str(error)) from None


def contract_of(project: Project, intent: str | None, scope: list[str] | None) -> Contract:
    """`--intent` and `--scope` go before what the project file says."""
    contract = parse_intent(project.contract.intent if intent is None else intent)
    named = tuple(scope) if scope else contract.scope or project.contract.scope
    return replace(contract, scope=named)


def check_scope(contract: Contract, files: Sequence[str]) -> None:
    """Raises CannotRun for a function of the scope that none of the program's sources mentions: otherwise it is known only when the
    program was built and run."""
    check_mentioned("scope", contract.scope, files)


def check_mentioned(what: str, functions: Sequence[str], files: Sequence[str]) -> None:
    """Raises CannotRun for a function that none of the sources mentions. Headers that are not among the files may define it: then
    nothing is said."""
    named = set(functions)
    here = {os.path.basename(path) for path in files}
    for path in files if named else ():
        text = inputs.read(path).text or b""
        if any(os.path.basename(os.fsdecode(header)) not in here for header in QUOTED_INCLUDE.findall(text)):
            return
        named -= {name for name in named if re.search(rb"(?<!\w)%b(?!\w)" % re.escape(_last(name).encode()), text)}
    if named:
        raise CannotRun(f"{what} {', '.join(sorted(named))}: no source of the program mentions a function of that name")


def _last(name: str) -> str:
    """`forward` of `vit::Model::forward<float>` and of `vit.Model.forward`."""
    return re.split(r"::|\.", name.split("<")[0])[-1]


def show_questions(contract: Contract) -> None:
    """What the words leave open, on stderr."""
    for question in contract.questions:
        options = f" ({' / '.join(question.options)})" if question.options else ""
        print(f"question about {question.field}: {question.text}{options}", file=sys.stderr)


def check_seconds(seconds: float | None) -> None:
    """Raises CannotRun for a `--timeout` that is no time; None is none."""
    if seconds is not None and not seconds > 0:  # nan is no time either
        raise CannotRun(f"--timeout {seconds:g}: give a number of seconds above 0")
