"""Programs and a tracer for tests of the hub on machines without a GPU.

SIMULATED: the tracer. A program here is a Python script that really runs, in a process of its own; what it "did on the GPU" is what
it writes into `$HOME/trace.json`, and the effects of poison and of delays are told to it in its environment. Programs that
hang or crash run under the real limits; for the others a forked child stands for that, because it starts in no time.
Everything else (runs, files, comparison, statistics, gates) is what users get.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from stitchcuda.analysis.contract.project import ObserveSection, Project, RunSection
from stitchcuda.gpu_validate.processes import Ended, Limits, run_limited
from stitchcuda.gpu_validate.runs import Room
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, HostRead, Trace, TracedStream
from stitchcuda.gpu_validate.trace.session import TraceRequest

GOOD = """
import hashlib, json, os, random, struct, sys, time
size, seed = (sys.argv[1:] + ["8", "1"])[:2]
poison, delayed = os.environ["SCRIPT_POISON"] == "1", os.environ["SCRIPT_DELAY"]
home = os.environ["HOME"]
gpu = {"reads": [], "kernels": [], "failing": []}
def kernel(name, stream=0): gpu["kernels"].append([name, stream])
def read(value): gpu["reads"].append([str(value), ""])
def bring(form, *values):
    data = struct.pack(f"<{len(values)}{form}", *values)
    gpu["reads"].append([hashlib.sha256(data).hexdigest(), data.hex()])
def end(code=0):
    with open(os.path.join(home, "trace.json"), "w") as file: json.dump(gpu, file)
    sys.exit(code)
total = sum(range(int(size))) * int(seed)
kernel("scale"); kernel("sum", 1)
read(total // 2); read(total)
print("sum", total)
print("took", time.perf_counter_ns() % 100000, "ns")
end()
"""


def changed(*pairs: tuple[str, str], source: str = GOOD) -> str:
    """The good program with parts replaced."""
    for old, new in pairs:
        assert old in source, old
        source = source.replace(old, new)
    return source


def scripted_tracer(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    limits: Limits,
    request: TraceRequest,
    library: Path,
    cancel: Callable[[], bool] | None = None,
    scratch: Path | None = None,
) -> tuple[Ended, Trace | None]:
    """Stands for `trace.session.run_traced`."""
    told = {
        "SCRIPT_POISON": "1" if request.poison else "0",
        "SCRIPT_DELAY": ",".join(str(d.stream) for d in request.delays),
    }
    if any(word in (cwd / "main.py").read_text(encoding="utf-8") for word in ("os.abort", "sleep(60)")):
        ended = run_limited(command, cwd=cwd, env={**env, **told}, limits=limits, cancel=cancel, scratch=scratch)
    else:
        ended = _forked(command[command.index("main.py") :], cwd, {**env, **told})
    try:
        gpu = json.loads((Path(env["HOME"]) / "trace.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ended, None
    return ended, _trace(gpu, request)


def _forked(words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Ended:
    out, err = Path(env["HOME"]) / "out", Path(env["HOME"]) / "err"
    begun = time.perf_counter()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            for path, descriptor in ((out, 1), (err, 2)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(env)
            sys.argv = list(words)
            runpy.run_path("main.py", run_name="__main__")
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:  # noqa: BLE001 - what an interpreter would do with it
            traceback.print_exc()
            code = 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return Ended(
        os.waitstatus_to_exitcode(status), None, out.read_bytes(), err.read_bytes(), time.perf_counter() - begun
    )


def _trace(gpu: Mapping[str, list[Any]], request: TraceRequest) -> Trace:
    """One call every millisecond; its operation ends half a millisecond later."""
    full = request.mode == "full"
    calls: list[Call] = []
    ops: list[DeviceOp] = []
    reads: list[HostRead] = []

    def call(api: str, kind: str, name: str = "", stream: int = 0, status: int = 0, copy_kind: str = "") -> None:
        i = len(calls)
        site = (CallSite("main.cu", 10 + i, "main"),) if full else ()
        start = 1_000_000 * (i + 1)
        calls.append(
            Call(i, api, start, start + 900_000, correlation=i + 1, status=status, stream=stream, copy_kind=copy_kind,
                 kernel=name, sites=site)
        )  # fmt: skip
        if kind and (full or request.operations):
            ops.append(DeviceOp(kind, start, start + 500_000, stream, i + 1, name, 8, copy_kind))

    for name, stream in gpu["kernels"]:
        call("cudaLaunchKernel", "kernel", name, int(stream))
    for value, data in gpu["reads"]:
        call("cudaMemcpy", "copy", copy_kind="d2h")
        contents = bytes.fromhex(data) if data and request.contents else None
        reads.append(HostRead(calls[-1].index, len(data) // 2 or 8, value, contents=contents))
    for api in gpu["failing"]:
        call(api, "", status=9)
    end = 1_000_000 * (len(calls) + 1)
    streams = (TracedStream(1, "created", 1),)
    return Trace(request.mode, 0, 500_000, end, tuple(calls), tuple(ops), tuple(reads), "simulated", streams=streams)


PROJECT = Project(run=RunSection(command=f"{sys.executable} -I -S main.py", timeout=5.0))


def project(command: str = "main.py", observe: ObserveSection = PROJECT.observe, **run: object) -> Project:
    section = RunSection(command=f"{sys.executable} -I -S {command}", timeout=5.0)
    return replace(PROJECT, run=replace(section, **run), observe=observe)  # type: ignore[arg-type]


def placing(folder: Path, source: str) -> Callable[[], AbstractContextManager[Path]]:
    """Stands for `Builder.placed`: a fresh folder with the program for every run, at one path for all versions."""

    @contextmanager
    def place() -> Iterator[Path]:
        tree = folder / "place"
        tree.mkdir()
        (tree / "main.py").write_text(source, encoding="utf-8")
        try:
            yield tree
        finally:
            shutil.rmtree(tree)

    return place


def room(folder: Path, source: str, settings: Project = PROJECT) -> Room:
    """A room for one version."""
    return Room(placing(folder, source), None, settings, scripted_tracer, scratch=folder, library=Path("simulated"))
