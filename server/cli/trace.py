"""`stitchcuda trace -- COMMAND...`: runs a program under the tracer (docs/command-line.md)."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TextIO

from stitchcuda.gpu_validate.health import probe_gpu
from stitchcuda.gpu_validate.processes import Limits
from stitchcuda.gpu_validate.trace.library import NoTracer, tracer_library
from stitchcuda.gpu_validate.trace.perfetto import to_perfetto
from stitchcuda.gpu_validate.trace.session import MODES, TraceRequest, run_traced
from stitchcuda.gpu_validate.trace.store import to_json
from stitchcuda.gpu_validate.trace.summary import to_text
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.request import check_seconds
from stitchcuda.server.cli.writing import replace_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mode", choices=MODES[::-1], default="full", help="timing leaves out what costs time")
    parser.add_argument(
        "--format",
        choices=("text", "json", "perfetto"),
        help="default: json when FILE of -o ends in .json, else text",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the trace there and print what the program prints"
    )
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="end the program after that long"
    )
    parser.add_argument(
        "--nvcc", default="", metavar="PATH", help="the compiler, or toolkit folder, whose CUPTI to use"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program and its arguments")


def run(arguments: argparse.Namespace) -> int:
    """0: the program ran to its end, 1: it ended in another way (the trace says what it did until then), 2: could not run."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise CannotRun("no command; write it behind --, as in: stitchcuda trace -- ./program arguments")
    check_seconds(arguments.timeout)
    form = arguments.format or ("json" if (arguments.output or "").lower().endswith(".json") else "text")
    if shutil.which(command[0]) is None:  # said before the tracer is built, which takes a while the first time
        raise CannotRun(f"{command[0]} could not be started: it is not there, or no program")
    try:
        library = tracer_library(arguments.nvcc)
    except NoTracer as error:
        raise CannotRun(str(error)) from None
    ended, trace = run_traced(
        command,
        cwd=Path.cwd(),
        env=os.environ,
        limits=Limits(seconds=arguments.timeout),
        request=TraceRequest(arguments.mode, operations=True),
        library=library,
        network=True,
    )
    if ended.not_started:
        raise CannotRun(f"{command[0]} {ended.describe()}")
    if trace is None:
        raise CannotRun("the trace cannot be read: something else wrote to its file")
    if form == "text":
        text = to_text(trace)
    else:
        value = to_json(trace) if form == "json" else to_perfetto(trace)
        text = json.dumps(value, separators=(",", ":")) + "\n"
    if arguments.output:
        _pass_on(sys.stdout, ended.stdout)
        replace_file(arguments.output, text.encode(errors="backslashreplace"))
    else:
        _pass_on(sys.stderr, ended.stdout)  # stdout is for the trace
        sys.stdout.write(text)
    _pass_on(sys.stderr, ended.stderr)
    if not trace.calls and (problem := probe_gpu()):
        print(f"stitchcuda: {problem}", file=sys.stderr)
    if not ended.ok:
        print(f"stitchcuda: {command[0]} {ended.describe()}", file=sys.stderr)
    return 0 if ended.ok else 1


def _pass_on(stream: TextIO, data: bytes) -> None:
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()
