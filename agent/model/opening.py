"""From settings to a model that can be asked: what is configured, what the user has still to agree to, and the model itself with all that
stands between it and the roles. Without an endpoint in the settings nothing here imports a client or opens a connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stitchcuda.agent.model.accounting import UNSAID, Budget, Ledger
from stitchcuda.agent.model.approvals import Approvals, Command, Question, needed
from stitchcuda.agent.model.endpoint import (
    NO_KEY,
    NOTHING_SAID,
    Endpoint,
    NoEndpoint,
    Options,
    choose_budget,
    choose_endpoint,
    choose_key,
)
from stitchcuda.agent.model.guarded import Guarded
from stitchcuda.agent.model.messages import Model, NotApproved
from stitchcuda.agent.model.secrets import Redactor
from stitchcuda.agent.model.sending import NeverSend
from stitchcuda.agent.model.transcript import Replaying, Transcript
from stitchcuda.agent.user_folders import config_folder
from stitchcuda.analysis.contract.project import LlmSection
from stitchcuda.gpu_validate.project_file import NAME, find_file, read_project


@dataclass(frozen=True)
class Configured:
    """What the settings say for one program. `never_send` are the rules of the user and of the workspace together."""

    endpoint: Endpoint
    key: str = field(default=NO_KEY, repr=False)
    budget: Budget = UNSAID
    never_send: tuple[NeverSend, ...] = ()

    def ledger(self) -> Ledger:
        """A new one: from here on time is spent."""
        return Ledger(self.budget, self.endpoint.prices)

    def questions(
        self, root: Path, files: Iterable[str], commands: Sequence[Command], approvals: Approvals
    ) -> tuple[Question, ...]:
        """What the user must agree to before the files are sent and the commands executed; empty: nothing more."""
        return needed(root, self.endpoint, files, commands, key=self.key, approved=approvals.all(root))


def user_settings() -> LlmSection:
    """`[llm]` of the user's own file, `stitchcuda.toml` in the user's config folder. Raises NoEndpoint for one with mistakes."""
    return _section(config_folder() / NAME)


def configured(
    root: Path,
    options: Options = NOTHING_SAID,
    budget: Budget = UNSAID,
    environment: Mapping[str, str] | None = None,
) -> Configured | None:
    """For the program at `root`; None when no endpoint is named. Raises NoEndpoint."""
    environment = os.environ if environment is None else environment
    user = user_settings()
    file = find_file(root)
    workspace = _section(file) if file is not None else LlmSection()
    endpoint = choose_endpoint(options, environment, user, workspace, file=str(file or ""))
    if endpoint is None:
        return None
    rules = [NeverSend(user.never_send)] if user.never_send else []
    if file is not None and workspace.never_send:
        rules.append(NeverSend(workspace.never_send, file.parent))
    said = choose_budget(budget, user, workspace)
    if budget.money is None and said.money is not None and not (endpoint.prices.input or endpoint.prices.output):
        raise NoEndpoint("[llm] money: nothing says what the model costs; input_price and output_price do")
    return Configured(endpoint, choose_key(endpoint, options, environment), said, tuple(rules))


def _section(file: Path) -> LlmSection:
    if not file.is_file():
        return LlmSection()
    project, problems = read_project(file)
    if problems:
        raise NoEndpoint("\n".join(problems))
    return project.llm


def open_model(
    said: Configured,
    root: Path,
    files: Collection[str],
    *,
    approvals: Approvals,
    ledger: Ledger,
    transcript: Transcript | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Model:
    """The endpoint's model, for requests that hold texts of `files` at most (relative paths). Raises NotApproved unless the user
    agreed to all of it; nothing is sent before a request is."""
    open_questions = said.questions(root, files, (), approvals)
    if open_questions:
        raise NotApproved("\n".join(q.text for q in open_questions))
    from stitchcuda.agent.model.client import Client  # asyncio: not before a model is used

    client = Client(said.endpoint, said.key, ledger, cancelled=cancelled, tell=tell)
    redactor = Redactor(known=() if said.key == NO_KEY else (said.key,))
    return Guarded(client, redactor, files=frozenset(files), transcript=transcript, ledger=ledger)


def replay_model(folder: Path, ledger: Ledger) -> Model:
    """The model of a run, answering from its transcript. Raises TranscriptError."""
    return Guarded(Replaying(folder, ledger), Redactor(), ledger=ledger)
