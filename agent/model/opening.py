"""From settings to a model that can be asked: what is configured, what the user has still to agree to, and then the model itself. Without
an endpoint in the settings nothing here imports a client or opens a connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from stitchcuda.agent.model.messages import Model, NotApproved
from stitchcuda.agent.model.sending import NeverSend
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

    def agreed(self, root: Path, files: Iterable[str], commands: Sequence[Command], approvals: Approvals) -> Agreed:
        """The only way to a model. Raises NotApproved unless the user agreed to all of it."""
        files = tuple(files)
        asked = self.questions(root, files, commands, approvals)
        if asked:
            raise NotApproved("\n".join(question.text for question in asked))
        return Agreed(self.endpoint, files, self.key)


@dataclass(frozen=True)
class Agreed:
    """An endpoint that the user agreed to, and the files (relative paths) that it may be sent."""

    endpoint: Endpoint
    files: tuple[str, ...]
    key: str = field(default=NO_KEY, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What nobody may read in a request or in a record."""
        return () if self.key == NO_KEY else (self.key,)

    def model(self, ledger: Ledger, *, cancelled: Callable[[], bool], tell: Callable[[str], None]) -> Model:
        """What asks it; `Guarded` belongs around it. Nothing is sent before a request is."""
        from stitchcuda.agent.model.client import Client  # asyncio: not before a model is used

        return Client(self.endpoint, self.key, ledger, cancelled=cancelled, tell=tell)


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
