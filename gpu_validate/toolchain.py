"""Where the CUDA toolkit is: nvcc, the CUPTI headers and library, compute-sanitizer.

A toolkit is an installed one (`/usr/local/cuda`), or the `nvidia-*` wheels of this Python environment, which lay themselves out
under `site-packages/nvidia/cu13`. Nothing heavy is imported; programs that are asked for their version get `ASK_SECONDS`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ASK_SECONDS = 5.0
WHEEL_FOLDERS = ("cu13", "cu14")
EXE = ".exe" if os.name == "nt" else ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program said when asked; `problem` is empty when it ended with 0 in time."""

    text: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Nvcc:
    """A CUDA compiler that answered. `root` is its toolkit's folder (`include/` and the libraries are below it)."""

    path: Path
    version: str  # "13.0.88"
    root: Path
    source: str  # "setting" | "CUDA_HOME" | "CUDA_PATH" | "PATH" | "wheel" | "default"


@dataclass(frozen=True, slots=True)
class Cupti:
    """The tracing library with the headers to build against it."""

    include: Path  # the folder that holds cupti.h
    library: Path
    version: str  # CUPTI_API_VERSION of the header, "" when it could not be read


def ask(command: Sequence[str], seconds: float = ASK_SECONDS) -> Answer:
    """Runs `command` without input and returns what it printed (stdout, then stderr)."""
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return Answer("", f"no answer in {seconds:g} s")
    except OSError as error:
        return Answer("", f"could not be started: {error.strerror or error}")
    text = done.stdout + done.stderr
    if done.returncode != 0:
        last = text.strip().splitlines()[-1:] or [""]
        return Answer(text, f"ended with {done.returncode}{': ' if last[0] else ''}{last[0][:200]}")
    return Answer(text)


def find_nvcc(setting: str = "", environment: Mapping[str, str] | None = None) -> tuple[Nvcc | None, str]:
    """The first nvcc that answers, and what was wrong with those before it.

    Order: `setting` (a file, or a toolkit folder), CUDA_HOME, CUDA_PATH, PATH, the wheels of this environment, `/usr/local/cuda`.
    A `setting` that does not work ends the search: the user named it, so another compiler would be a surprise.
    """
    problems: list[str] = []
    for source, path in _nvcc_candidates(setting, os.environ if environment is None else environment):
        if not path.is_file():
            if source != "default":
                problems.append(f"{source}: {path} does not exist")
        else:
            answer = ask([str(path), "--version"])
            version = re.search(r"\bV(\d+\.\d+\.\d+)", answer.text)
            if not answer.problem and version:
                return Nvcc(path, version[1], _toolkit_root(path), source), "; ".join(problems)
            problems.append(f"{source}: {path} {answer.problem or 'did not print its version'}")
        if source == "setting":
            break
    return None, "; ".join(problems)


def _nvcc_candidates(setting: str, environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    name = f"nvcc{EXE}"
    if setting:
        given = Path(setting).expanduser()
        yield "setting", given / "bin" / name if given.is_dir() else given
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := environment.get(variable):
            yield variable, Path(home) / "bin" / name
    if found := shutil.which("nvcc", path=environment.get("PATH", "")):
        yield "PATH", Path(found)
    for folder in wheel_roots():
        if (folder / "bin" / name).is_file():
            yield "wheel", folder / "bin" / name
    if os.name != "nt":
        yield "default", Path("/usr/local/cuda/bin/nvcc")


def wheel_roots() -> list[Path]:
    """The folders in which the CUDA wheels of this environment lay out a toolkit, newest major version first."""
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return [Path(place) / name for name in reversed(WHEEL_FOLDERS) for place in places if (Path(place) / name).is_dir()]


def _toolkit_root(nvcc: Path) -> Path:
    """The toolkit that `nvcc` belongs to. It may be a link or a script that starts the real one: then nvcc itself says."""
    for path in (nvcc, nvcc.resolve()):
        root = path.parent.parent
        # scripts for all of the toolkit's programs may lie side by side: its headers tell the toolkit
        if path.parent.name == "bin" and _first(root, ("include", "targets/*/include"), ("cuda_runtime.h",)):
            return root
    top = re.search(r"^#\$ TOP=(.+)$", ask([str(nvcc), "-dryrun", "-E", "-x", "cu", os.devnull]).text, re.MULTILINE)
    return Path(os.path.normpath(top[1].strip())) if top else nvcc.resolve().parent.parent


def find_cupti(root: Path | None) -> Cupti | None:
    """CUPTI of the toolkit at `root`, else of the wheels of this environment."""
    for place in ([root] if root else []) + wheel_roots():
        header = _first(place, ("include", "extras/CUPTI/include", "targets/*/include"), ("cupti.h",))
        library = _first(place, _LIBRARY_FOLDERS, _CUPTI_LIBRARIES)
        if header and library:
            return Cupti(header.parent, library, _cupti_version(header.parent))
    return None


_LIBRARY_FOLDERS = ("lib", "lib64", "extras/CUPTI/lib64", "targets/*/lib", "bin")
if os.name == "nt":
    _CUPTI_LIBRARIES: tuple[str, ...] = ("cupti64_*.dll",)
elif sys.platform == "darwin":
    _CUPTI_LIBRARIES = ("libcupti.dylib",)
else:
    _CUPTI_LIBRARIES = ("libcupti.so", "libcupti.so.*")


def _cupti_version(include: Path) -> str:
    try:
        text = (include / "cupti_version.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    version = re.search(r"^#define\s+CUPTI_API_VERSION\s+(\d+)", text, re.MULTILINE)
    return version[1] if version else ""


def find_sanitizer(root: Path | None, environment: Mapping[str, str] | None = None) -> Path | None:
    """compute-sanitizer of the toolkit at `root`, else on PATH, else of the wheels of this environment."""
    name = f"compute-sanitizer{EXE}"
    folders = ("bin", "compute-sanitizer", "extras/compute-sanitizer")
    path = (os.environ if environment is None else environment).get("PATH", "")
    if root and (found := _first(root, folders, (name,))):
        return found
    if on_path := shutil.which("compute-sanitizer", path=path):
        return Path(on_path)
    return next((found for place in wheel_roots() if (found := _first(place, folders, (name,)))), None)


def _first(root: Path, folders: Sequence[str], names: Sequence[str]) -> Path | None:
    for folder in folders:
        for name in names:
            if found := sorted(root.glob(f"{folder}/{name}")):
                return found[0]
    return None
