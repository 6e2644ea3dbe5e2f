"""The program of one file among those that were analysed together: each `main` is a program of its own. For the execution graph."""

from __future__ import annotations

from dataclasses import replace

from stitchcuda.analysis.index import Analysis


def mains_of(analysis: Analysis) -> tuple[str, ...]:
    """The files whose `main` is executed, each once."""
    return tuple(dict.fromkeys(path for path in _starts(analysis) if path))


def _starts(analysis: Analysis) -> list[str]:
    """For each Timeline the file of its `main`, "" when it begins elsewhere or does nothing with the device."""
    entries = ((t, analysis.program.functions[t.entry]) for t in analysis.timelines)
    return [entry.path if entry.name == "main" and t.ops else "" for t, entry in entries]


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
