"""What a build made: the program, the libraries beside it, and their device code."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.gpu_validate.building.device_code import UnknownLayout, read_device_code
from stitchcuda.gpu_validate.building.elf import NotElf, read_elf
from stitchcuda.gpu_validate.building.model import BuildPlan, Resources
from stitchcuda.gpu_validate.building.steps import cmake_programs
from stitchcuda.gpu_validate.toolchain import ask

MOST_NAMES = 500  # kernel names given to the demangler at once


@dataclass(frozen=True)
class Product:
    """`kernels`: mangled name, name to show, what it takes. `problem`: why the program cannot be used."""

    device_code: str = ""
    kernels: tuple[tuple[str, str, Resources], ...] = ()
    compiles_at_run_time: bool = False
    program_digest: str = ""
    notes: tuple[str, ...] = ()
    problem: str = ""
    device_functions: str = ""


def find_program(plan: BuildPlan, folder: Path, place: Path) -> Path | str:
    """The program that the build made, or why it is not known which."""
    if plan.program:
        path = folder / plan.program
        return (
            path if path.is_file() else f"the build ended well and made no {plan.program}, which [run] command starts"
        )
    if plan.kind == "cmake":
        made = sorted(p for p in cmake_programs(folder / plan.directory).values() if p.is_file())
    else:
        newest = _newest_source(place)
        made = sorted(p for p in _programs(place) if p.stat().st_mtime_ns >= newest)
    if len(made) == 1:
        return made[0]
    if not made:
        return "the build ended well and made no program"
    names = ", ".join(os.path.relpath(p, folder) for p in made[:6])
    return f"the build makes {len(made)} programs ({names}); say which one in stitchcuda.toml: [run] command"


def _programs(place: Path) -> list[Path]:
    found = []
    for base, folders, files in os.walk(place):
        folders[:] = [f for f in folders if f != "CMakeFiles"]
        for name in files:
            path = Path(base, name)
            if os.access(path, os.X_OK) and not path.is_symlink() and ".so" not in name and _starts(path):
                found.append(path)
    return found


def _starts(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return False
        elf = read_elf(path.read_bytes())
    except (OSError, NotElf):
        return False
    return elf.starts_by_itself or elf.kind == 2


def _newest_source(place: Path) -> int:
    """When the copy's sources were made: programs older than that came with the tree."""
    times = [
        Path(base, name).stat().st_mtime_ns
        for base, _, files in os.walk(place)
        for name in files
        if Path(name).suffix in (".cu", ".cpp", ".cc", ".cxx", ".c")
    ]
    return min(times, default=0)


def read_product(place: Path, program: Path, arch: str) -> Product:
    """The program with the libraries of the tree. `arch` "sm_90" or ""."""
    files = [program, *(p for p in place.rglob("*.so*") if p.is_file() and not p.is_symlink())]
    contents = {os.path.relpath(p, place): p.read_bytes() for p in files}
    digest = hashlib.blake2b(contents[os.path.relpath(program, place)], digest_size=16).hexdigest()
    number = re.match(r"sm_(\d+)", arch)
    target = int(number[1]) if number else None
    try:
        code = read_device_code(contents, target)
    except UnknownLayout as error:
        return Product(program_digest=digest, notes=(f"the device code could not be read ({error})",))
    if target is not None and (code.archs or code.ptx):
        runs = any(a // 10 == target // 10 and a <= target for a in code.archs) or any(p <= target for p in code.ptx)
        if not runs:
            held = ", ".join(f"sm_{a}" for a in sorted(code.archs | code.ptx))
            return Product(
                problem=f"the program holds code for {held} and none that runs on {arch}; let the [build] command ask for it"
            )
    shown = demangle(list(code.kernels))
    kernels = tuple((name, shown[name], resources) for name, resources in sorted(code.kernels.items()))
    return Product(code.digest, kernels, code.compiles_at_run_time, digest, device_functions=code.functions)


def scripts_product(place: Path) -> Product:
    """Of a Python program: its kernels are made as it runs."""
    h = hashlib.blake2b(digest_size=16)
    for path in sorted(place.rglob("*.py")):
        h.update(str(path.relative_to(place)).encode() + b"\0" + hashlib.blake2b(path.read_bytes()).digest())
    return Product(compiles_at_run_time=True, program_digest=h.hexdigest())


def demangle(names: list[str]) -> dict[str, str]:
    """Names as a reader knows them; as they are where c++filt is missing."""
    program = shutil.which("c++filt")
    shown = {name: name for name in names}
    for start in range(0, len(names) if program else 0, MOST_NAMES):
        part = names[start : start + MOST_NAMES]
        answer = ask([str(program), *part])
        lines = answer.text.splitlines()
        if not answer.problem and len(lines) == len(part):
            shown.update(zip(part, lines, strict=True))
    return shown
