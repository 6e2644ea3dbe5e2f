"""`stitchcuda gate PATH`: is any launch or copy slower on the GPU than in the baseline? For CI, and for the editor on save."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from stitchcuda.analysis.contract.jsonread import SchemaError
from stitchcuda.gpu_validate import watch
from stitchcuda.gpu_validate.cache_folder import cache_folder
from stitchcuda.gpu_validate.hub import Cancelled, Tools
from stitchcuda.gpu_validate.project_file import ProjectError, find_project
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.regression import THRESHOLD, Regression, regressions
from stitchcuda.gpu_validate.version import Version
from stitchcuda.gpu_validate.watch import CannotWatch, Watched
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.progress_lines import MODES, ProgressLines
from stitchcuda.server.cli.writing import replace_file
from stitchcuda.server.interrupting import ended_like_interrupted

_STEPS = watch.TRACED + 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the program: its folder, or its one source file")
    parser.add_argument(
        "--baseline", metavar="FILE", help="the times to compare with; default: those kept for this program"
    )
    parser.add_argument("--update-baseline", action="store_true", help="make what is measured now the baseline")
    parser.add_argument(
        "--threshold",
        type=float,
        default=100 * THRESHOLD,
        metavar="PERCENT",
        help="slower by more; default %(default)g",
    )
    parser.add_argument("--on-save", action="store_true", help="also run compute-sanitizer memcheck")
    parser.add_argument("--nvcc", default="", metavar="PATH", help="the compiler, or its toolkit folder")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--progress", choices=MODES, default="auto", help="how progress is shown on stderr")


def run(arguments: argparse.Namespace) -> int:
    """0: nothing is slower, or the baseline was recorded, 1: something is slower or wrong, 2: it was not measured."""
    return run_with(arguments, real_tools(arguments.nvcc))


def run_with(arguments: argparse.Namespace, tools: Tools) -> int:
    """The command with the given tools."""
    path = Path(arguments.path)
    if not path.exists():
        raise CannotRun(f"{path} does not exist")
    if not arguments.threshold > 0:
        raise CannotRun(f"--threshold {arguments.threshold:g}: give a percentage above 0")
    file = Path(arguments.baseline) if arguments.baseline else _kept(path)
    baseline = _read(file, named=bool(arguments.baseline) and not arguments.update_baseline)
    lines = ProgressLines(sys.stderr, arguments.progress, of=_STEPS)
    try:
        project = find_project(path)
        with ended_like_interrupted():
            now = watch.watch(Version(path), project, tools, sanitize=arguments.on_save, progress=lines.step)
    except (ProjectError, CannotWatch) as error:
        raise CannotRun(str(error)) from None
    except Cancelled:
        raise CannotRun("cancelled") from None
    finally:
        lines.end()
    record = arguments.update_baseline or baseline is None or baseline.device != now.device
    if record and arguments.baseline and not arguments.update_baseline:
        raise CannotRun(f"{file} was recorded on {baseline.device if baseline else '?'}, this is {now.device}")
    found = () if record or baseline is None else regressions(baseline.sites, now.sites, arguments.threshold / 100)
    if record:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(str(file), (json.dumps(watch.to_json(now), indent=1) + "\n").encode())
    value = _value(now, found, recorded=record)
    if arguments.format == "json":
        print(json.dumps(value, indent=2))
    else:
        _print(value, file)
    return 1 if value["findings"] else 0


def _kept(path: Path) -> Path:
    """Where the baseline of a program is kept that none was named for."""
    name = hashlib.blake2b(os.fsencode(path.resolve()), digest_size=8).hexdigest()
    return cache_folder() / "baselines" / f"{path.resolve().name}-{name}.json"


def _read(file: Path, *, named: bool) -> Watched | None:
    try:
        return watch.from_json(json.loads(file.read_bytes()))
    except FileNotFoundError:
        if named:
            raise CannotRun(f"{file} does not exist; --update-baseline makes it") from None
        return None
    except (OSError, ValueError, SchemaError) as error:
        raise CannotRun(f"{file}: no baseline ({error}); --update-baseline makes a new one") from None


def _value(now: Watched, slower: tuple[Regression, ...], *, recorded: bool) -> dict[str, Any]:
    findings = [
        {"code": "latency-regression", "path": r.key.path, "line": r.line, "message": r.message} for r in slower
    ] + [{"code": "sanitizer", "path": f.path, "line": f.line, "message": f.what} for f in now.reports if f.path]
    state = "regressed" if slower else "reported" if findings else "baseline_recorded" if recorded else "ok"
    return {
        "schema": 1,
        "state": state,
        "device": now.device,
        "findings": findings,
        "sites": watch.to_json(now)["sites"],
        "kernels": [
            {"name": name, "registers": r.registers, "shared": r.shared, "stack": r.stack, "spilled": r.spilled}
            for name, r in sorted(now.kernels.items())
        ],
        "sanitizer": now.not_checked or "run",
    }


def _print(value: dict[str, Any], file: Path) -> None:
    for finding in value["findings"]:
        print(f"{finding['path']}:{finding['line']}: {finding['code']}: {finding['message']}")
    sites = len(value["sites"])
    what = f"{sites} launch or copy site{'' if sites == 1 else 's'} measured on {value['device']}"
    if value["state"] == "baseline_recorded":
        print(f"{what}; kept as the baseline in {file}")
    else:
        print(f"{what}; {len(value['findings'])} finding{'' if len(value['findings']) == 1 else 's'}")
