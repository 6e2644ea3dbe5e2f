"""What a role is told: the version to change, what may be changed, what rules and measurements said, what was tried before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stitchcuda.agent.transforms.transform import Refusal
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.verdict import GateResult


@dataclass(frozen=True, slots=True)
class Scope:
    """What may be edited: existing `files` (paths of the version). With `functions`, only these functions in them (a name,
    qualified or not), and new code beside them; without, whole files. New files may be made beside them with `may_add_files`."""

    files: tuple[str, ...]
    functions: tuple[str, ...] = ()
    may_add_files: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """An earlier attempt: what it planned, how it ended ("does not build", "slower", ...), and the issue it ended with."""

    summary: str
    outcome: str
    issue: str = ""


@dataclass(frozen=True)
class Brief:
    """What every role is told. `texts` are the files of the version to change that may be sent; `analysis` is that version's.
    `measured` holds figures of the original and of the best version so far by name, and `limits`, the sentence of the verdict;
    `capabilities` what the machine has; `build` the result of G2 with what kernels take."""

    contract: Contract
    texts: Mapping[str, bytes]
    analysis: Analysis
    scope: Scope
    refusals: tuple[Refusal, ...] = ()
    applied: tuple[str, ...] = ()  # what the rules did, a sentence each
    measured: Mapping[str, Any] = field(default_factory=dict)
    trace: Trace | None = None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    build: GateResult | None = None
    history: tuple[Attempt, ...] = ()
