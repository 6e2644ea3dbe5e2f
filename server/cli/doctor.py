"""`stitchcuda doctor`: what this machine has and what each missing part costs. Always exits with 0."""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict
from pathlib import Path

from stitchcuda.agent.model.probing import endpoint_capability
from stitchcuda.analysis.order import execute
from stitchcuda.gpu_validate.capabilities import Capability, probe
from stitchcuda.server.cli.dispatch import version

NOT_NEEDED = """\
Static analysis (check, graph, lsp) and proofs (stitch --no-run) need none of these. Building, running and measuring
versions (stitch, validate, trace) needs nvcc, a GPU and CUPTI; what is missing leaves gates untested, and that is said."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--nvcc", default="", metavar="PATH", help="the CUDA compiler, or the toolkit's folder, to look at first"
    )


def run(arguments: argparse.Namespace) -> int:
    capabilities = _with_endpoint(probe(arguments.nvcc))
    system = f"{platform.system()} {platform.machine()}"
    if arguments.format == "json":
        report = {
            "schema": 1,
            "stitchcuda": version(),
            "python": platform.python_version(),
            "platform": system,
            "analysis": analysis(),
            "capabilities": [asdict(capability) for capability in capabilities],
        }
        print(json.dumps(report, indent=2))
    else:
        print(f"stitchcuda {version()}, Python {platform.python_version()}, {system}, analysis {analysis()}\n")
        print("\n".join(line for capability in capabilities for line in _lines(capability)))
        print(f"\n{NOT_NEEDED}")
    return 0


def analysis() -> str:
    """What runs: `compiled` code (docs/adr/0011) or the `interpreted` modules."""
    return "interpreted" if (execute.__file__ or "").endswith(".py") else "compiled"


def _with_endpoint(capabilities: tuple[Capability, ...]) -> tuple[Capability, ...]:
    """After the library that it needs."""
    place = 1 + next(k for k, capability in enumerate(capabilities) if capability.name == "openai")
    return (*capabilities[:place], endpoint_capability(Path.cwd()), *capabilities[place:])


def _lines(capability: Capability) -> list[str]:
    name = f"{capability.name:<18}"
    if capability.found:
        lines = [f"found    {name} {'  '.join(part for part in (capability.version, capability.where) if part)}"]
    else:
        lines = [f"missing  {name} needed for {capability.costs}"]
    if capability.problem:
        lines.append(f"{'':<28}{capability.problem}")
    return lines
