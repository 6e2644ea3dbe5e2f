"""What `stitchcuda.toml` (or `[tool.stitchcuda]` of pyproject.toml) says about a program; every field has a default that
fits a single file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BuildSection:
    """`command` runs in the program's folder (a copy of it); empty: what was detected. `directory` is the build tree."""

    command: str = ""
    directory: str = "build"
    incremental: bool = True


@dataclass(frozen=True, slots=True)
class RunSection:
    """`command` may hold `{size}` and `{seed}`; empty: the program that the build made. `timeout` in seconds, a run."""

    command: str = ""
    directory: str = "."
    timeout: float = 60.0
    env: Mapping[str, str] = field(default_factory=dict)
    sizes: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ObserveSection:
    """What results are. `files` are globs below the run's folder; `ignore` are regular expressions whose matches in the
    output are not compared; `buffers` is "host" (what copies bring to the host) or "none"."""

    stdout: bool = True
    files: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    buffers: str = "host"


@dataclass(frozen=True, slots=True)
class ContractSection:
    intent: str = ""
    scope: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LlmSection:
    """The language model: where it is, what it may be sent, and what it may cost. Prices are of a million tokens; 0 stands for a
    number that is not said. `timeout` in seconds, a request."""

    base_url: str = ""
    model: str = ""
    api: str = ""
    reasoning: str = ""
    stream: bool = True
    timeout: float = 0.0
    never_send: tuple[str, ...] = ()
    input_price: float = 0.0
    output_price: float = 0.0
    cached_price: float = 0.0
    rounds: int = 0
    tokens: int = 0
    money: float = 0.0
    seconds: float = 0.0
    gpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CheckSection:
    """Which findings are reported, and how severe they are. Words of `select` and `ignore` are codes, groups or "all"; a severity may be
    "off". `exclude` are patterns of files, below the folder of the file that says it, in which nothing is reported."""

    severity: Mapping[str, str] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    build: BuildSection = BuildSection()
    run: RunSection = field(default_factory=RunSection)
    observe: ObserveSection = ObserveSection()
    contract: ContractSection = ContractSection()
    llm: LlmSection = LlmSection()
    check: CheckSection = field(default_factory=CheckSection)
