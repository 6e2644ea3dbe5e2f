"""The commands of a build, run in the copy: what each plan runs, with which environment, and what came of it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from stitchcuda.gpu_validate.building.model import BuildPlan, Unit
from stitchcuda.gpu_validate.building.trees import read_text
from stitchcuda.gpu_validate.processes import Ended, Limits, clean_environment, run_limited
from stitchcuda.gpu_validate.toolchain import Nvcc

BUILD_LIMITS = Limits(seconds=900.0, output_bytes=64 << 20, file_bytes=8 << 30)
# Lines for the tracer and the sanitizer, resources for the comparison, device code that can be read back. None of them
# changes the code (tests/toolchain/test_builds.py).
APPENDED = "-g -lineinfo --resource-usage --no-compress"
_ARCH_VARIABLE = re.compile(
    r"^[ \t]*(\w*ARCH\w*|SMS?)[ \t]*[:?]?=[ \t]*(sm_|compute_)?(\d{2,3}a?)[ \t]*(?:#.*)?$", re.MULTILINE
)


@dataclass
class Transcript:
    """What the commands printed, for the log and the diagnostics."""

    parts: list[str] = field(default_factory=list)

    def add(self, command: Sequence[str], ended: Ended) -> None:
        printed = (ended.stdout + ended.stderr).decode("utf-8", "replace")
        self.parts.append(f"$ {shlex.join(command)}\n{printed}[{ended.describe()}, {ended.seconds:.2f} s]\n")

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass(frozen=True)
class Workshop:
    """Where and with what a build runs. `folder` is the program's folder in the copy, `original` in the user's tree."""

    folder: Path
    place: Path
    top: Path
    home: Path
    nvcc: Nvcc | None
    arch: str  # "sm_90", or "" when nothing says
    cancel: Callable[[], bool] | None

    def environment(self) -> dict[str, str]:
        added = {"LC_ALL": "C", "NVCC_APPEND_FLAGS": f"{os.environ.get('NVCC_APPEND_FLAGS', '')} {APPENDED}".strip()}
        if os.name == "posix":
            added["MAKEFLAGS"] = "-Otarget"  # compilers at work side by side do not mix their lines
        environment = clean_environment(home=self.home)
        if self.nvcc is not None:
            added["PATH"] = os.pathsep.join((str(self.nvcc.path.parent), environment.get("PATH", os.defpath)))
            added |= {
                "CUDACXX": str(self.nvcc.path),
                "CUDA_PATH": str(self.nvcc.root),
                "CUDA_HOME": str(self.nvcc.root),
            }
        if self.arch:
            added["CUDAARCHS"] = self.arch.removeprefix("sm_")
        return {**environment, **added}

    def run(self, command: Sequence[str], where: Path, transcript: Transcript) -> Ended:
        where.mkdir(parents=True, exist_ok=True)
        ended = run_limited(
            command, cwd=where, env=self.environment(), limits=BUILD_LIMITS, cancel=self.cancel, scratch=self.place
        )
        transcript.add(command, ended)
        return ended


def run_plan(plan: BuildPlan, shop: Workshop, transcript: Transcript, changed: Iterable[str] | None) -> Ended:
    """Builds; the last command's end. `changed` are the files that differ from what the copy was built from, None for a fresh
    copy."""
    if plan.kind == "cmake":
        return _cmake(plan, shop, transcript)
    if plan.kind == "make":
        makefile = read_text(shop.folder / plan.command[-1])
        command = (*plan.command, f"-j{_cores()}", *_arch_variables(makefile, shop.arch))
        return shop.run(command, shop.folder, transcript)
    if plan.kind == "command":
        return shop.run(plan.command, shop.folder, transcript)
    if plan.kind == "python":
        command = (sys.executable, "-I", "-m", "py_compile", plan.program)
        return shop.run(command, shop.folder, transcript)
    return _units(plan, shop, transcript, changed)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _arch_variables(makefile: str, arch: str) -> list[str]:
    """Makefile variables that hold an architecture, set to the one asked for."""
    number = arch.removeprefix("sm_")
    found = {m[1]: f"{m[2] or ''}{number}" for m in _ARCH_VARIABLE.finditer(makefile)} if arch else {}
    return [f"{name}={value}" for name, value in sorted(found.items())]


def _cmake(plan: BuildPlan, shop: Workshop, transcript: Transcript) -> Ended:
    tree = shop.folder / plan.directory
    if not (tree / "CMakeCache.txt").exists():
        query = tree / ".cmake" / "api" / "v1" / "query"
        query.mkdir(parents=True, exist_ok=True)
        (query / "codemodel-v2").touch()
        assert shop.nvcc is not None
        definitions = [f"CMAKE_CUDA_COMPILER={shop.nvcc.path}", *plan.definitions]
        if shop.arch:
            definitions.append(f"CMAKE_CUDA_ARCHITECTURES={shop.arch.removeprefix('sm_')}")
        generator = ["-G", "Ninja"] if shutil.which("ninja", path=shop.environment()["PATH"]) else []
        command = ["cmake", "-S", str(shop.folder), "-B", str(tree), *generator, *(f"-D{d}" for d in definitions)]
        configured = shop.run(command, shop.folder, transcript)
        if not configured.ok:
            return configured
    target = ["--target", Path(plan.program).name] if Path(plan.program).name in cmake_programs(tree) else []
    return shop.run(["cmake", "--build", str(tree), f"-j{_cores()}", *target], shop.folder, transcript)


def cmake_programs(tree: Path) -> Mapping[str, Path]:
    """The programs that a configured tree makes, by target, as CMake's file API tells (cmake-file-api(7))."""
    reply = tree / ".cmake" / "api" / "v1" / "reply"
    found = {}
    for path in reply.glob("target-*.json"):
        try:
            target = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if target.get("type") == "EXECUTABLE" and target.get("artifacts"):
            found[str(target["name"])] = tree / str(target["artifacts"][0]["path"])
    return found


def _units(plan: BuildPlan, shop: Workshop, transcript: Transcript, changed: Iterable[str] | None) -> Ended:
    """Compiles what is out of date, side by side, and links."""
    objects = shop.folder / plan.directory / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    outputs = [objects / f"{n}-{Path(unit.source).stem}.o" for n, unit in enumerate(plan.units)]
    stale = [(u, o) for u, o in zip(plan.units, outputs, strict=True) if _out_of_date(shop.folder, o, changed)]

    def compile_unit(job: tuple[Unit, Path]) -> tuple[Sequence[str], Ended, Transcript]:
        unit, output = job
        words = [_moved(word, shop) for word in unit.arguments]
        command = [*_with_nvcc(words, shop), "-MD", "-MF", str(output.with_suffix(".d")), "-o", str(output)]
        own = Transcript()
        return command, shop.run(command, shop.folder / unit.directory, own), own

    with ThreadPoolExecutor(_cores()) as pool:
        results = list(pool.map(compile_unit, stale))
    for _, _, own in results:
        transcript.parts += own.parts
    if failed := next((ended for _, ended, _ in results if not ended.ok), None):
        return failed
    command = [*_with_nvcc(plan.link, shop), *map(str, outputs), "-o", str(shop.folder / plan.program)]
    (shop.folder / plan.program).parent.mkdir(parents=True, exist_ok=True)
    return shop.run(command, shop.folder, transcript)


def _with_nvcc(words: Sequence[str], shop: Workshop) -> list[str]:
    """nvcc by its path, and the architecture where the command leaves it open."""
    if words[0] != "nvcc" or shop.nvcc is None:
        return list(words)
    open_arch = shop.arch and not any(re.match(r"--?(gencode|gpu-|arch)", w) for w in words)
    return [str(shop.nvcc.path), *([f"-arch={shop.arch}"] if open_arch else []), *words[1:]]


def _moved(word: str, shop: Workshop) -> str:
    """A word of the user's command with paths of their tree as paths of the copy."""
    return re.sub(rf"{re.escape(str(shop.top))}(?=/|$)", lambda _: str(shop.place), word)


def _out_of_date(folder: Path, output: Path, changed: Iterable[str] | None) -> bool:
    """Whether an object must be made again; a file that was not there before may be found first, and then all are."""
    if changed is None or not output.exists():
        return True
    text = read_text(output.with_suffix(".d"))
    if not text:
        return True
    made_from = {os.path.normpath(folder / part) for part in re.split(r"[\s\\]+", text.partition(":")[2]) if part}
    return any(os.path.normpath(folder / path) in made_from for path in changed)
