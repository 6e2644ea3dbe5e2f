"""What a rule reports: plain values with sites relative to functions, so that they survive edits elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from stitchcuda.analysis.findings.suppressions import Suppression
from stitchcuda.analysis.kernel.trace import MAX_GUESSES
from stitchcuda.analysis.order.timeline import Timeline
from stitchcuda.analysis.program.ir import Program, Site


class Group(StrEnum):
    """What kind of harm a finding is about."""

    CORRECTNESS = "correctness"
    DEVICE = "device"
    RESOURCE = "resource"
    PERFORMANCE = "performance"
    STYLE = "style"


class Severity(StrEnum):
    """How bad it is when it is true; severity and confidence are independent."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"


class Confidence(StrEnum):
    """`certain` holds on every reading of what is unknown; `possible` is not shown by default."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


RANK = {Confidence.POSSIBLE: 0, Confidence.LIKELY: 1, Confidence.CERTAIN: 2}


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the bytes of `site` by `text`; an empty span inserts."""

    site: Site
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """One way to mend a finding. Edits do not overlap and are applied together."""

    title: str  # what it does and what it costs
    edits: tuple[Edit, ...]
    preferred: bool = False


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that a finding is about, and why."""

    site: Site
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One hazard at one site, in the words that the user reads."""

    code: str
    group: Group
    severity: Severity
    confidence: Confidence
    site: Site  # the later access of a race, the offending call otherwise
    message: str
    related: tuple[Related, ...] = ()
    fixes: tuple[Fix, ...] = ()
    condition: str = ""  # the `#if` branch or path it depends on, as written; "" when none


@dataclass(frozen=True)
class RuleInput:
    """What a rule may look at: one entry's Timeline, the program, and the text of its files."""

    timeline: Timeline
    program: Program
    sources: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Rule:
    """A finding code: its identity and its check. `doc` is the module docstring with the sections What / Why / Example /
    Use instead / Fix safety / References; the documentation pages are made from it."""

    code: str
    group: Group
    severity: Severity
    summary: str
    doc: str
    check: Callable[[RuleInput], Iterable[Finding]]
    default: bool = True  # part of the default selection
    every_path: bool = (
        False  # a site counts only when each entry that reaches it reports it ("this wait is never needed")
    )
    # Whether what it says of an entry depends on functions that the entry does not come to.
    asks_beyond: Callable[[Timeline], bool] | None = None


@dataclass(frozen=True)
class KernelInput:
    """What a rule about device code may look at: one kernel of the program, and the text of its files."""

    kernel: str  # uid of a function with space "global" and a body
    program: Program
    sources: Mapping[str, bytes]
    guesses: int = MAX_GUESSES  # shapes of its block that it is followed with when no launch tells them


@dataclass(frozen=True, slots=True)
class KernelRule:
    """A finding code about one kernel, however often it is launched. `doc` is as in `Rule`."""

    code: str
    group: Group
    severity: Severity
    summary: str
    doc: str
    check: Callable[[KernelInput], Iterable[Finding]]
    default: bool = True


@dataclass(frozen=True)
class CommentInput:
    """What a rule about the comments that silence findings may look at: one file after all other rules."""

    path: str
    text: bytes
    suppressions: tuple[Suppression, ...]
    codes: Collection[str]  # that exist
    found: Mapping[int, Collection[str]]  # zero-based line -> codes of what was found there, silenced or not
    judged: Callable[[str, int], bool]  # whether findings of a code on a line would be known


@dataclass(frozen=True, slots=True)
class CommentRule:
    """A finding code about the comments that silence findings. `doc` is as in `Rule`."""

    code: str
    group: Group
    severity: Severity
    summary: str
    doc: str
    check: Callable[[CommentInput], Iterable[Finding]]
    default: bool = True
    every_program: bool = False  # counts only when each program that holds the file reports it


@dataclass(frozen=True, slots=True)
class Measured:
    """A finding code that no look at the source gives: the GPU decides. `doc` is as in `Rule`."""

    code: str
    group: Group
    severity: Severity
    summary: str
    doc: str
    default: bool = True
