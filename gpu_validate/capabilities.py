"""What is on this machine and what each missing part costs: the facts behind `stitchcuda doctor`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.gpu_validate.toolchain import ASK_SECONDS, Nvcc, ask, find_cupti, find_nvcc, find_sanitizer


@dataclass(frozen=True, slots=True)
class Capability:
    """One part of the machine. `costs` says what it is needed for, whether or not it was found."""

    name: str
    found: bool
    version: str
    where: str
    costs: str
    problem: str = ""  # what was wrong, when there is more to say than "not found"


def probe(nvcc_setting: str = "") -> tuple[Capability, ...]:
    """All capabilities, in a fixed order. Takes about as long as the slowest program asked, `ASK_SECONDS` a program at most."""
    nvcc, problem = find_nvcc(nvcc_setting)
    probes: tuple[Callable[[], Capability], ...] = (
        lambda: _nvcc(nvcc, problem),
        _gpu,
        lambda: _cupti(nvcc),
        lambda: _sanitizer(nvcc),
        lambda: _package(
            "cupy",
            _CUPY_PACKAGES,
            "comparing large buffers within a tolerance on the GPU (without it numpy or Python does it, slower or not at all)",
        ),
        lambda: _package("openai", ("openai",), "proposals from a language model (the rules need none)"),
        lambda: _program("nvim", ("nvim",), "stitchcuda in Neovim (0.11 or newer)", r"NVIM v(\S+)"),
        lambda: _program("code", ("code", "codium", "code-server"), "stitchcuda in VS Code", r"(\d+\.\S+)"),
        lambda: _program("node", ("node",), "building the VS Code extension from source", r"v(\S+)"),
    )
    with ThreadPoolExecutor(max_workers=len(probes)) as pool:
        return tuple(pool.map(lambda run: run(), probes))


def device_facts(nvcc_setting: str = "") -> dict[str, str]:
    """The compiler's version and the names of the GPUs, as far as they are here: what writing code for this machine needs, and
    nothing of where things lie on it."""
    nvcc, problem = find_nvcc(nvcc_setting)
    compiler, gpu = _nvcc(nvcc, problem), _gpu()
    facts = {"nvcc": compiler.version if compiler.found else ""}
    facts |= {"gpu": gpu.where, "driver": gpu.version} if gpu.found else {}
    return {name: fact for name, fact in facts.items() if fact}


_CUPY_PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy")


def _nvcc(nvcc: Nvcc | None, problem: str) -> Capability:
    costs = "building versions (without it changes are proved, not compiled or run)"
    if nvcc is None:
        return Capability("nvcc", False, "", "", costs, problem)
    return Capability("nvcc", True, nvcc.version, f"{nvcc.path} ({nvcc.source})", costs, problem)


def _gpu() -> Capability:
    costs = "running and timing versions (without it changes stay previews)"
    answer = ask([sys.executable, "-P", "-m", "stitchcuda.gpu_validate.nvml"], ASK_SECONDS)
    try:
        data = json.loads(answer.text)
    except ValueError:
        data = {"error": f"NVML: {answer.problem or 'unreadable answer'}"}
    if "error" in data:
        return _gpu_from_program(costs, str(data["error"]))
    gpus = [f"{gpu['name']} ({gpu['arch']}, {gpu['memory'] / 2**30:.0f} GiB)" for gpu in data["gpus"]]
    version = f"driver {data['version']}, CUDA {data['cuda']}"
    return Capability("gpu", bool(gpus), version, ", ".join(gpus), costs, "" if gpus else "the driver sees no GPU")


def _gpu_from_program(costs: str, problem: str) -> Capability:
    program = shutil.which("nvidia-smi")
    if program is None:
        return Capability("gpu", False, "", "", costs, problem)
    answer = ask([program, "--query-gpu=name,driver_version", "--format=csv,noheader"])
    rows = [line.split(", ") for line in answer.text.splitlines() if line.count(", ") == 1]
    if answer.problem or not rows:
        return Capability("gpu", False, "", "", costs, f"{problem}; nvidia-smi {answer.problem or 'lists no GPU'}")
    return Capability("gpu", True, f"driver {rows[0][1]}", ", ".join(row[0] for row in rows), costs, problem)


def _cupti(nvcc: Nvcc | None) -> Capability:
    costs = "tracing runs (without it the execution graph comes from the source alone)"
    cupti = find_cupti(nvcc.root if nvcc else None)
    if cupti is None:
        return Capability("cupti", False, "", "", costs)
    return Capability("cupti", True, cupti.version and f"API {cupti.version}", str(cupti.library), costs)


def _sanitizer(nvcc: Nvcc | None) -> Capability:
    costs = "looking for memory errors and races inside kernels while versions run"
    path = find_sanitizer(nvcc.root if nvcc else None)
    if path is None:
        return Capability("compute-sanitizer", False, "", "", costs)
    answer = ask([str(path), "--version"])
    version = re.search(r"[Vv]ersion\s+(\S+)", answer.text)
    return Capability("compute-sanitizer", True, version[1] if version else "", str(path), costs, answer.problem)


def _package(module: str, distributions: tuple[str, ...], costs: str) -> Capability:
    spec = importlib.util.find_spec(module)
    if spec is None:
        return Capability(module, False, "", "", costs)
    where = str(Path(spec.origin).parent) if spec.origin else ""
    for name in distributions:
        try:
            return Capability(module, True, importlib.metadata.version(name), where, costs)
        except importlib.metadata.PackageNotFoundError:
            continue
    return Capability(module, True, "", where, costs)


def _program(name: str, commands: tuple[str, ...], costs: str, pattern: str) -> Capability:
    beside = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    path = next((found for command in commands if (found := shutil.which(command, path=beside))), None)
    if path is None:
        return Capability(name, False, "", "", costs)
    answer = ask([path, "--version"])
    version = re.search(pattern, answer.text)
    return Capability(name, True, version[1] if version else "", path, costs, answer.problem)
