"""`stitchcuda validate BASELINE CANDIDATE`: the verdict on a changed program (docs/command-line.md)."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from functools import reduce
from pathlib import Path

from stitchcuda.agent.transforms import DECLARED
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.proof.model import BY_HAND, Declared
from stitchcuda.gpu_validate.hub import Cancelled, Hub, HubOptions, Progress
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.statistics import LOOKS
from stitchcuda.gpu_validate.verdict import GATES, Verdict, VerdictState
from stitchcuda.gpu_validate.verdict_json import verdict_to_json
from stitchcuda.gpu_validate.version import Version
from stitchcuda.server.cli import candidates, inputs
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.progress_lines import MODES, ProgressLines
from stitchcuda.server.cli.request import check_scope, check_seconds, contract_of, project_of, show_questions
from stitchcuda.server.interrupting import ended_like_interrupted
from stitchcuda.server.report.verdicts import verdict_text

_STEPS = 24  # of a validation that runs to its end, about


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="BASELINE CANDIDATE: two folders, or two source files")
    parser.add_argument("--against", metavar="REV", help="one path: its files now against those of a git revision")
    parser.add_argument("--intent", metavar="TEXT", help="bounds and tolerance in words; default: [contract] intent")
    parser.add_argument("--scope", action="append", metavar="F", help="a function that the contract is about")
    parser.add_argument(
        "--declare",
        action="append",
        choices=tuple(DECLARED),
        help="the change is this transform and may alter what it may; default: by hand, which may wait and allocate otherwise",
    )
    parser.add_argument("--all-gates", action="store_true", help="run every gate even after a failure")
    parser.add_argument(
        "--delays", action="store_true", help="hold back the work of each stream in turn: lucky races show"
    )
    parser.add_argument(
        "--runs", type=int, metavar="N", help=f"most timed runs of each version; default {2 * LOOKS[-1]}"
    )
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="give up after that long")
    parser.add_argument("--nvcc", default="", metavar="PATH", help="the compiler, or its toolkit folder")
    parser.add_argument("--keep", action="store_true", help="keep the builds and say where they are")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--progress", choices=MODES, default="auto", help="how progress is shown on stderr")


def run(arguments: argparse.Namespace) -> int:
    """0: accepted, 1: rejected, or not proved to be as good, 2: it could not start."""
    baseline, candidate = _versions(arguments)
    if arguments.runs is not None and arguments.runs < 2 * LOOKS[0]:
        raise CannotRun(f"--runs {arguments.runs}: at least {2 * LOOKS[0]} of each version are needed to say anything")
    if arguments.runs is not None and arguments.runs > 2 * LOOKS[-1]:
        raise CannotRun(
            f"--runs {arguments.runs}: at most {2 * LOOKS[-1]}; more runs would only give chance more chances"
        )
    check_seconds(arguments.timeout)
    project = project_of(arguments.paths[0])
    contract = contract_of(project, arguments.intent, arguments.scope)
    check_scope(contract, inputs.find(arguments.paths[:1]).files)
    show_questions(contract)
    verdict = _with_places(
        _judge(baseline, candidate, project, contract, arguments), baseline, Path(arguments.paths[-1])
    )
    if arguments.format == "json":
        print(json.dumps(verdict_to_json(verdict), indent=2))
    else:
        sys.stdout.write(verdict_text(verdict))
    return 0 if verdict.state is VerdictState.ACCEPTED else 1


def _versions(arguments: argparse.Namespace) -> tuple[Version, Version]:
    needed = 1 if arguments.against else 2
    if len(arguments.paths) != needed:
        want = (
            "one path with --against"
            if arguments.against
            else "two paths, BASELINE and CANDIDATE (or one with --against REV)"
        )
        raise CannotRun(f"give {want}, not {len(arguments.paths)}")
    if arguments.against:
        return candidates.against_revision(arguments.paths[0], arguments.against)
    return candidates.two_paths(*arguments.paths)


def declared_of(names: list[str] | None) -> Declared:
    """What the named transforms may alter together; by hand when none is named."""
    return reduce(lambda a, b: a | b, [DECLARED[name] for name in names]) if names else BY_HAND


def _with_places(verdict: Verdict, baseline: Version, changed: Path) -> Verdict:
    """The verdict with paths as the user gave them: of the changed program, or of the original for what that has as well."""

    def place(path: str, root: Path) -> str:
        inside = Path(path)
        if inside.is_relative_to(baseline.folder):
            inside = inside.relative_to(baseline.folder)
        if root.is_dir():
            target = root / inside
        else:
            target = root if str(inside) == baseline.root.name else root.parent / inside
        return str(target) if path and target.exists() else path

    gates = tuple(
        dataclasses.replace(
            gate,
            findings=tuple(
                dataclasses.replace(f, path=place(f.path, baseline.root if f.of_original else changed))
                for f in gate.findings
            ),
        )
        for gate in verdict.gates
    )
    primary = verdict.primary
    if primary is not None:
        at = (primary.path, primary.line)
        original = any(f.of_original and (f.path, f.line) == at for gate in verdict.gates for f in gate.findings)
        primary = dataclasses.replace(primary, path=place(primary.path, baseline.root if original else changed))
    return dataclasses.replace(verdict, gates=gates, primary=primary)


def _judge(
    baseline: Version, candidate: Version, project: Project, contract: Contract, arguments: argparse.Namespace
) -> Verdict:
    lines = ProgressLines(sys.stderr, arguments.progress, of=_STEPS)

    def told(step: Progress) -> None:
        lines.step(f"{step.gate} {GATES[step.gate]}: {step.sentence}" if step.gate else step.sentence)

    end = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    options = HubOptions(delays=arguments.delays, runs=arguments.runs or 2 * LOOKS[-1], keep=arguments.keep)
    try:
        with (
            ended_like_interrupted(),
            Hub(
                baseline,
                project,
                contract,
                real_tools(arguments.nvcc),
                options=options,
                progress=told,
                cancelled=lambda: end is not None and time.monotonic() > end,
            ) as hub,
        ):
            verdict = hub.judge(candidate, declared_of(arguments.declare), all_gates=arguments.all_gates)
            if arguments.keep:
                print(f"kept: {hub.scratch}", file=sys.stderr)
            return verdict
    except Cancelled:
        raise CannotRun(
            f"no verdict within {arguments.timeout:g} s; give a larger --timeout, or fewer --runs"
        ) from None
    except (ValueError, OSError) as error:
        raise CannotRun(str(error)) from None
    finally:
        lines.end()
