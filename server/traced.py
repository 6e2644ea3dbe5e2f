"""A run of a program for its execution graph: from a file that `stitchcuda trace` wrote, or from a kept run of `stitch`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from stitchcuda.agent import journal
from stitchcuda.agent.journal import JournalError
from stitchcuda.agent.measured import measured, nodes_of_calls
from stitchcuda.analysis.graph.measured import Measured
from stitchcuda.analysis.graph.model import GraphNode
from stitchcuda.analysis.index import Analysis
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.trace.store import BadTrace, from_json
from stitchcuda.server.not_shown import NotShown

NEWEST = "run"  # in place of a file: the original as the newest run of *Stitch* on the program measured it
ELSEWHERE = "no call of the trace stands where the graph has one: is it of another program, or of other sources?"


def read(name: str) -> Trace:
    """The trace in a file; else the one that the run of that name keeps. Raises NotShown."""
    path = Path(name)
    if not path.exists():
        try:
            path = kept(journal.find(name).folder) or path
        except JournalError:
            pass  # then the file is what was meant
    try:
        return from_json(json.loads(path.read_bytes()))
    except OSError as error:
        raise NotShown(f"{name}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, BadTrace) else "it is not JSON"
        raise NotShown(f"{name}: {why}; make it with: stitchcuda trace --format json -o FILE -- COMMAND") from None


def kept(folder: Path) -> Path | None:
    """The trace of the original in a run's folder."""
    file = folder / journal.TRACE
    return file if file.is_file() else None


def newest(program: Path) -> Path:
    """The trace of the newest run of `stitch` on a program that keeps one. Raises NotShown."""
    for folder in journal.folders_about(program):
        file = kept(folder)
        if file is not None:
            return file
    raise NotShown(
        f"no run of {program.name} is kept that measured it: stitch it where it can be run, or name a file that"
        " `stitchcuda trace --format json -o FILE -- COMMAND` wrote"
    )


def told_on(trace: Trace, nodes: Sequence[GraphNode], parts: Iterable[tuple[Analysis, int, int]]) -> Measured:
    """The run on the graph that has these nodes. `parts`: the analyses that it is of, each with the number of its first node and how many
    it has. The part in which most calls are found is the program that ran."""
    maps = [nodes_of_calls(analysis, trace, nodes[first : first + count]) for analysis, first, count in parts]
    best = max(maps, key=len, default={})
    run = measured(trace, nodes, best)
    return replace(run, notes=(*run.notes, ELSEWHERE)) if nodes and not best else run
