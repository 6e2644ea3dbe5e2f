"""What a graph is about: the program of one file among those that were analysed together (each `main` is a program of its own), or one
function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stitchcuda.analysis.index import Analysis
from stitchcuda.analysis.order.execute import execute_entry
from stitchcuda.analysis.order.timeline import Timeline


def mains_of(analysis: Analysis) -> tuple[str, ...]:
    """The files whose `main` is executed, each once."""
    return tuple(dict.fromkeys(path for path in _starts(analysis) if path))


def _starts(analysis: Analysis) -> list[str]:
    """For each Timeline the file of its `main`, "" when it begins elsewhere or does nothing with the device."""
    entries = ((t, analysis.program.functions.get(t.entry)) for t in analysis.timelines)
    return [entry.path if entry is not None and entry.name == "main" and t.ops else "" for t, entry in entries]


def own_program(analysis: Analysis, path: str) -> tuple[Analysis, str]:
    """The analysis with what the file's program executes alone, and the path of its `main`, "" when it has none. Of a file that several
    programs share the first one that leads into it is shown."""
    functions = analysis.program.functions
    mains = _starts(analysis)
    paths = mains_of(analysis)
    if len(paths) < 2:
        return analysis, paths[0] if paths else ""
    if path in paths:
        own = path
    else:
        here = {uid for uid, function in functions.items() if function.path == path}
        leading = (p for p, t in zip(mains, analysis.timelines, strict=True) if p and not here.isdisjoint(t.functions))
        own = next(leading, "")
    timelines = tuple(t for p, t in zip(mains, analysis.timelines, strict=True) if p in ("", own))
    ran = {functions[uid].path for t in timelines for uid in t.functions}
    elsewhere = set(paths) - {own} - ran
    findings = tuple(f for f in analysis.findings if f.site.path not in elsewhere)
    return replace(analysis, timelines=timelines, findings=findings), own


def timelines_of(analysis: Analysis, function: str | None) -> Sequence[Timeline]:
    """The Timelines of the entries that reach a function (its name, qualified or not); of one that no entry reaches, those that start at
    it. Empty when there is none with a body. All without a function."""
    if not function:
        return analysis.timelines
    named = [
        f.uid
        for f in analysis.program.functions.values()
        if f.body is not None and function in (f.name, f.qualified, f.uid)
    ]
    reached = [t for t in analysis.timelines if not t.functions.isdisjoint(named)]
    if reached:
        return reached
    return [execute_entry(analysis.program, uid, sources=analysis.sources) for uid in named]


def unknown_function(function: str, paths: str) -> str:
    """What is told of a function that `timelines_of` does not know."""
    return f"no function {function!r} with a body in {paths}"
