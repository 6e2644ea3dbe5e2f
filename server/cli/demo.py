"""`stitchcuda demo`: from an intent to a validated version of the shipped example, on a copy of it."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stitchcuda.agent.outcome import Candidate, Kind
from stitchcuda.agent.stitching import Stitched
from stitchcuda.analysis.graph.build import execution_graph
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.verdict import GATES, REQUIRED, GateResult, GateState, Interval, Verdict, VerdictState
from stitchcuda.gpu_validate.version import Version
from stitchcuda.server.cli import shipped
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.progress_lines import ProgressLines
from stitchcuda.server.cli.stitch import request_of, run_request
from stitchcuda.server.report import stitched
from stitchcuda.server.report.chain import LEGEND, chain, table
from stitchcuda.server.report.verdicts import verdict_text

EXAMPLE, EXPERT, SCOPE = "vit", "vit_expert", "forward"
SECONDS = 480.0  # for everything that is built and run
_SHOWN = 3  # obligations of each transform
_DIFF_LINES = 40  # enough to see what kind of change it is; `runs diff` has all
NOBODY_JUDGED = Verdict(
    VerdictState.UNPROVEN, tuple(GateResult(g, GateState.UNTESTED, "there is no version to judge") for g in GATES)
)
NEXT = """\
Next: stitchcuda stitch PATH --intent TEXT does the same for your program; stitchcuda check PATH finds hazards, and
stitchcuda graph PATH shows what runs, both without a GPU (README.md)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--intent", metavar="TEXT", help="what to reach, in English or Chinese; default: what the example asks for"
    )
    parser.add_argument("--no-run", action="store_true", help="build and run nothing: the proof alone")


def run(arguments: argparse.Namespace) -> int:
    """0: an answer was reached, 1: the example does not build or run here."""
    folder = _copy()
    request = request_of(str(folder), arguments.intent, None, SECONDS, no_run=arguments.no_run, reference=_expert())
    print(f"The example: the inference of a vision transformer, written the plain way. A copy of it is {folder}.\n")
    words = request.project.contract.intent if arguments.intent is None else arguments.intent
    print(f"What is asked: {words!r} (--intent asks for something else, in English or Chinese). It was read as\n")
    print("\n".join(stitched.contract_lines(request.contract)) + "\n")
    before = _graph(Version(folder))
    print(f"What it does for one image, in the order of the program ({LEGEND})\n")
    print(f"{chain(before)}\n", flush=True)
    done = run_request(request, ProgressLines(sys.stderr, "auto", of=14))
    best = done.result.best
    if best is not None:
        after = _graph(best.version)
        print("What the stitched version does\n")
        print(f"{chain(after)}\n")
        print(f"{table(before, after)}\n")
        print("The change, unit by unit\n")
        print("\n".join(stitched.unit_lines(done.value["units"])) + "\n")
        print(_diff(done))
    print(_answer(done))
    return 1 if done.result.outcome is Kind.FAILED else 0


def _diff(done: Stitched) -> str:
    """The beginning of the change, and where the rest is."""
    lines = stitched.diff_between(done.base, done.after, "").split("\n")
    if len(lines) > _DIFF_LINES:
        more = len(lines) - _DIFF_LINES
        lines = [*lines[:_DIFF_LINES], f"... {more} more lines: stitchcuda runs diff {done.folder.name}", ""]
    return "\n".join(lines)


def _answer(done: Stitched) -> str:
    value = done.value
    best = done.result.best
    parts = [f"verdict: {verdict_text(best.verdict if best is not None else NOBODY_JUDGED)}"]
    if value["refused"]:
        parts.append("What was not changed, and why\n" + "\n".join(stitched.refusal_lines(value["refused"])) + "\n")
    if done.reference is not None and best is not None:
        parts.append(_against_expert(best, done.reference))
    if proof := _proof(value):
        parts.append(proof)
    parts.append(f"Answer: {value['outcome']}: {value['reason']}")
    if value["question"]:
        parts.append(f"Question: {value['question']['text']} ({' / '.join(value['question']['options'])})")
    name = done.folder.name
    kept = f"Kept in {done.folder}: stitchcuda runs show {name} shows it again"
    if done.result.outcome is Kind.NOT_VALIDATED:
        kept += f", stitchcuda runs apply {name} --unvalidated writes the change into the copy"
    elif best is not None:
        kept += f", stitchcuda runs apply {name} writes the change into the copy"
    parts.append(f"{kept}.\n{NEXT}")
    return "\n".join(parts)


def _against_expert(best: Candidate, expert: Candidate) -> str:
    """How much of the hand-tuned version's speed was reached: both against the same original, in the same run."""
    lines = [f"Against the same program tuned by hand (examples/{EXPERT}), measured in the same run"]
    for name, ours in best.verdict.speedup.items():
        theirs = expert.verdict.speedup.get(name)
        if theirs is None:
            continue
        share = Interval(ours.low / theirs.high, ours.middle / theirs.middle, ours.high / theirs.low)
        lines.append(
            f"  {name:<10} stitched {ours.middle:.2f} x, by hand {theirs.middle:.2f} x: {share.middle:.0%} of its speed "
            f"({share.low:.0%} to {share.high:.0%})"
        )
    if len(lines) == 1:
        lines.append("  it could not be measured")
    return "\n".join(lines) + "\n"


def _proof(value: Mapping[str, Any]) -> str:
    """What rests on proof alone, when something was not tested that a validated version needs."""
    gates = {g["gate"]: g for g in (value["verdict"] or {"gates": []})["gates"]}
    untested = [n for n in REQUIRED if n not in gates or gates[n]["state"] == GateState.UNTESTED.value]
    if not value["units"] or not untested:
        return ""
    lines = [f"Untested here: {', '.join(f'{n} ({GATES[n]})' for n in untested)}. What is known without them:"]
    for name in ("G0", "G1"):
        if name in gates:
            lines.append(f"  {name} {GATES[name]}: {gates[name]['state']}")
    by_transform: dict[str, dict[str, None]] = {}
    for unit in value["units"]:
        shown = by_transform.setdefault(unit["transform"], {})
        shown.update(dict.fromkeys(f"  {unit['transform']}: {o['what']}: {o['shown_by']}" for o in unit["proof"]))
    for transform, shown in by_transform.items():
        lines += list(shown)[:_SHOWN]
        if len(shown) > _SHOWN:
            lines.append(f"  {transform}: and {len(shown) - _SHOWN} more, in the run's result.json")
    return "\n".join(lines) + "\n"


def _copy() -> Path:
    """The example in a folder of its own, which stays: `runs apply` writes there."""
    example = shipped.folder("examples") / EXAMPLE
    if not example.is_dir():
        raise CannotRun(f"{example} is missing; install stitchcuda again")
    try:
        folder = Path(tempfile.mkdtemp(prefix="stitchcuda-demo-")) / EXAMPLE
        shutil.copytree(example, folder, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        raise CannotRun(f"the example cannot be copied to {tempfile.gettempdir()} ({error.strerror})") from None
    return folder


def _expert() -> dict[str, bytes] | None:
    """The hand-tuned version's own files, which go over those of the example; None when it was not installed."""
    folder = shipped.folder("examples") / EXPERT
    if not folder.is_dir():
        return None
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.suffix in (".cu", ".cpp", ".h", ".cuh")}


def _graph(version: Version) -> ExecutionGraph:
    analysis = analyse(version)
    return execution_graph(analysis.timelines, analysis.program, analysis.sources, SCOPE)
