"""What replies become: plans, edits, fixes and contract fields, or `Malformed` with what to tell the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from stitchcuda.analysis.contract.types import Contract, Evidence, Question


@dataclass(frozen=True, slots=True)
class Malformed:
    """A reply that cannot be used. `reason` is one sentence for the journal, `feedback` is written for the model: what was
    wrong, at which field, with which value, and what is expected."""

    reason: str
    feedback: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What the architect wants changed. `targets` are functions or files of the scope. With `done` nothing is worth trying,
    and `summary` says why."""

    summary: str
    steps: tuple[str, ...] = ()
    expected_bottleneck: str = ""
    risks: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    done: bool = False


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """`anchor` occurs exactly once in the file and becomes `text`."""

    path: str
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class RewriteFunction:
    """The definition of `function` (a name, qualified where that is needed) becomes `text`, signature and body."""

    path: str
    function: str
    text: str


@dataclass(frozen=True, slots=True)
class CreateFile:
    """A file that does not exist."""

    path: str
    text: str


AnchoredEdit: TypeAlias = ReplaceText | RewriteFunction | CreateFile


@dataclass(frozen=True, slots=True)
class Edits:
    """All edits count in the same text and are made together. `why` is one sentence for the reviewer."""

    edits: tuple[AnchoredEdit, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Fix:
    """A repair: what the model takes for the cause of the one issue, and the edits that remove it."""

    cause: str
    edits: tuple[AnchoredEdit, ...]


@dataclass(frozen=True, slots=True)
class AnchoredFields:
    """`contract` is the parser's with the fields that the model added; `added` are the words of each. What the model found
    ambiguous is among the contract's questions and in `questions`."""

    contract: Contract
    added: tuple[Evidence, ...] = ()
    questions: tuple[Question, ...] = ()
