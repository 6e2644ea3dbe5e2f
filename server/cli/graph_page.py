"""`stitchcuda graph --format html`: the execution graph as a page, with findings, a measured run, and a version to compare with."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.agent import journal, versions
from stitchcuda.agent.journal import JournalError, Record
from stitchcuda.agent.versions import UnitError
from stitchcuda.analysis.findings.finding import Finding
from stitchcuda.analysis.graph.build import GraphBuilder
from stitchcuda.analysis.graph.hazards import Hazard, hazards
from stitchcuda.analysis.graph.measured import Measured
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.graph.to_html import Side, to_html
from stitchcuda.analysis.index import Analysis
from stitchcuda.analysis.order.timeline import Timeline
from stitchcuda.analysis.program.ir import Problem
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.version import Version
from stitchcuda.server import traced
from stitchcuda.server.check_files import CheckFiles
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.selection import selection
from stitchcuda.server.not_shown import NotShown

Shown = Callable[[Finding], str | None]


@dataclass(frozen=True)
class Part:
    """One program of a graph: `first` is the number of its first node. `whole`: its graph has all entries and nothing else."""

    analysis: Analysis
    first: int
    count: int
    whole: bool = True


@dataclass(frozen=True)
class Programs:
    """A graph of one program or several, with what it was made from."""

    graph: ExecutionGraph
    parts: tuple[Part, ...]
    problems: tuple[Problem, ...] = ()


class Collected:
    """Builds the graph of several programs and remembers which nodes are whose."""

    def __init__(self) -> None:
        self.builder = GraphBuilder(complete=True)
        self.parts: list[Part] = []

    def add(self, analysis: Analysis, timelines: Sequence[Timeline], *, whole: bool) -> None:
        first = len(self.builder.nodes)
        self.builder.add_program(timelines, analysis.program, analysis.sources)
        self.parts.append(Part(analysis, first, len(self.builder.nodes) - first, whole))

    def programs(self, problems: Sequence[Problem]) -> Programs:
        return Programs(self.builder.graph(), tuple(self.parts), tuple(problems))


def page(after: Programs, arguments: argparse.Namespace, before: Programs | None, title: str, shown: Shown) -> str:
    """The text of the page. Raises CannotRun for a trace that cannot be used."""
    side = _side(after, arguments.trace, shown)
    other = _side(before, arguments.before_trace, shown) if before is not None else None
    return to_html(side, before=other, title=title, function=arguments.function or "")


def shown_in(paths: Sequence[str], folder: Path | None = None) -> Shown:
    """The findings that `check` would tell, by what stitchcuda.toml says. `folder` is where the paths of the analysis count from; None:
    from the working directory."""
    chosen = selection(None, None, "likely", CheckFiles(paths))

    def shown(finding: Finding) -> str | None:
        path = finding.site.path if folder is None else str(folder / finding.site.path)
        return chosen.severity_of(path, finding.code, finding.severity.value, finding.confidence.value)

    return shown


def _side(programs: Programs, trace: str | None, shown: Shown) -> Side:
    found: dict[Hazard, None] = {}
    for part in programs.parts:
        found.update(dict.fromkeys(hazards(programs.graph, part.analysis, shown)))
    run = measured_run(programs, trace) if trace else None
    return Side(programs.graph, tuple(found), run, programs.problems)


def measured_run(programs: Programs, path: str) -> Measured:
    try:
        trace = traced.read(path)
    except NotShown as error:
        raise CannotRun(str(error)) from None
    parts = ((part.analysis, part.first, part.count) for part in programs.parts if part.whole)
    run = traced.told_on(trace, programs.graph.nodes, parts)
    if traced.ELSEWHERE in run.notes:
        print(f"{path}: note: {traced.ELSEWHERE}", file=sys.stderr)
    return run


# ------------------------------------------------------------------------------------------------------------- of a run


@contextmanager
def versions_of(name: str) -> Iterator[tuple[Programs, Programs | None, Record, Shown]]:
    """The best version of a kept run and the original, or the original alone when the run has no better one. Raises CannotRun."""
    try:
        record = journal.find(name or None)
        with _original(record) as original:
            before = _programs(original)
            after = None
            if record.best:
                after = _programs(
                    original.with_texts(versions.compose(dict(original.texts), record.units, record.best))
                )
            yield (
                after or before,
                before if after is not None else None,
                record,
                shown_in([str(original.folder)], original.folder),
            )
    except (JournalError, UnitError) as error:
        raise CannotRun(str(error)) from None


@contextmanager
def _original(record: Record) -> Iterator[Version]:
    """The program as the run read it: its folder, or what the run kept of it when that is gone."""
    if record.root.exists():
        version = Version(record.root, journal.base_texts(record))
        for path, digest in record.files.items():
            try:
                now = journal.text_digest(version.read(path))
            except OSError:
                now = ""
            if now != digest:
                print(f"{path}: note: not the text of the run any more: shown as it is now", file=sys.stderr)
        yield version
        return
    with tempfile.TemporaryDirectory(prefix="stitchcuda-") as folder:
        texts = journal.all_texts(record)
        yield Version(journal.original_tree(record, texts, Path(folder)), texts)


def _programs(version: Version) -> Programs:
    collected = Collected()
    try:
        analysis = analyse(version)
    except OSError as error:
        raise CannotRun(f"{version.root}: cannot be read ({error.strerror})") from None
    collected.add(analysis, analysis.timelines, whole=True)
    return collected.programs(analysis.problems)
