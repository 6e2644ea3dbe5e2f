"""How a program is built, as far as its folder tells: what the project says, else CMake, a Makefile, the compile database,
or nvcc on all sources. What more than one reading fits is a Problem, not a guess."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from stitchcuda.analysis.contract.project import Project
from stitchcuda.gpu_validate.building.database import find_database, read_database
from stitchcuda.gpu_validate.building.model import BuildPlan, Problem, Unit
from stitchcuda.gpu_validate.building.trees import closure, read_text

SOURCES = frozenset({".cu", ".cpp", ".cc", ".cxx", ".c"})
DEFAULT_FLAGS = ("-O3", "-std=c++17")
_MAIN = re.compile(r"^[ \t]*(?:extern\s+\"C\"\s+)?(?:int|auto|signed)\s+main\s*\(", re.MULTILINE)
_STARTS = re.compile(r"^if\s+__name__\s*==", re.MULTILINE)
_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_LIBRARIES = {
    "cublas_v2.h": "cublas", "cublas.h": "cublas", "cublasLt.h": "cublasLt", "cufft.h": "cufft", "cufftXt.h": "cufft",
    "curand.h": "curand", "cusparse.h": "cusparse", "cusparse_v2.h": "cusparse", "cusolverDn.h": "cusolver",
    "cusolverSp.h": "cusolver", "nvml.h": "nvidia-ml", "nvrtc.h": "nvrtc", "nccl.h": "nccl",
    "cudnn.h": "cudnn", "nvjpeg.h": "nvjpeg", "npp.h": "nppc", "omp.h": "gomp",
}  # fmt: skip
_ADVICE = 'give the command in stitchcuda.toml: [build] command = "..."'


def detect(root: Path, project: Project, search_path: str | None = None) -> BuildPlan | Problem:
    """For a folder, or for a single source file. `search_path` is where build tools are looked for (default: PATH)."""
    if not root.exists():
        return Problem(f"{root} does not exist")
    root = Path(os.path.abspath(root))
    folder, directory = (root if root.is_dir() else root.parent), project.build.directory
    if Path(directory).is_absolute() or Path(os.path.normpath(directory)).parts[:1] == ("..",):
        return Problem(f'[build] directory = "{directory}" must lie in the program\'s folder')
    if project.build.command.strip():
        return BuildPlan("command", folder, directory, _shell(project.build.command), program=_named(project, folder))
    if root.suffix == ".py" and root.is_file():
        return _python(folder, root, project)
    if root.is_file() and not _is_the_program_of(folder, root):
        return _one_file(root, project)
    lists, makefile = folder / "CMakeLists.txt", _makefile(folder)
    database = find_database(folder, directory)
    if _starts_a_project(lists):
        if shutil.which("cmake", path=search_path):
            return _cmake(folder, project, lists)
        if makefile is None and database is None:
            return Problem(f"{lists} needs cmake, which is not on PATH; install it, or {_ADVICE}", missing_tool=True)
    if makefile is not None:
        if shutil.which("make", path=search_path) is None:
            return Problem(f"{makefile} needs make, which is not on PATH; install it, or {_ADVICE}", missing_tool=True)
        return BuildPlan("make", folder, directory, ("make", "-f", makefile.name), program=_named(project, folder))
    if database is not None:
        units = read_database(database, folder)
        return units if isinstance(units, Problem) else _link(folder, project, units, f"commands from {database.name}")
    return _all_sources(folder, project)


def _is_the_program_of(folder: Path, file: Path) -> bool:
    """Whether the folder's build description is about this file: it names it, and no other file there has a main function."""
    makefile = _makefile(folder)
    texts = [read_text(p) for p in (folder / "CMakeLists.txt", makefile) if p is not None and p.is_file()]
    if not any(re.search(rf"(?<![\w.]){re.escape(file.stem)}(?!\w)", text) for text in texts):
        return False
    sources = [p for p in folder.iterdir() if p.suffix.lower() in SOURCES and p.is_file()]
    return [p for p in sources if _has_main(read_text(p))] == [file]


def _starts_a_project(lists: Path) -> bool:
    """A CMakeLists.txt that calls no project() is a part of one, and cannot be configured alone."""
    return re.search(r"^\s*project\s*\(", read_text(lists), re.MULTILINE | re.IGNORECASE) is not None


def _shell(command: str) -> tuple[str, ...]:
    return ("cmd", "/d", "/c", command) if os.name == "nt" else ("/bin/sh", "-c", command)


def _named(project: Project, folder: Path) -> str:
    """The program that the [run] command starts, when that is one below the folder."""
    try:
        words = shlex.split(project.run.command)
    except ValueError:
        return ""
    while words and (re.fullmatch(r"\w+=.*", words[0]) or words[0] in ("env", "nice", "time", "exec")):
        words.pop(0)
    if not words or (os.sep not in words[0] and "/" not in words[0]):
        return ""
    path = Path(os.path.normpath(folder / project.run.directory / words[0]))
    return os.path.relpath(path, folder) if path.is_relative_to(folder) else ""


def _makefile(folder: Path) -> Path | None:
    """The folder's Makefile, unless CMake wrote it."""
    for name in ("GNUmakefile", "makefile", "Makefile"):
        path = folder / name
        if path.is_file() and "CMAKE generated file" not in read_text(path)[:400]:
            return path
    return None


def _cmake(folder: Path, project: Project, lists: Path) -> BuildPlan:
    kept, notes = _cached_choices(folder / project.build.directory / "CMakeCache.txt")
    if not any(d.startswith("CMAKE_BUILD_TYPE") for d in kept):
        text = re.sub(r"#[^\n]*", "", read_text(lists))
        if not re.search(r"\bset\s*\(\s*CMAKE_BUILD_TYPE\b", text, re.IGNORECASE):
            kept, notes = (*kept, "CMAKE_BUILD_TYPE=Release"), (*notes, "no build type was chosen: Release")
    return BuildPlan("cmake", folder, project.build.directory, (), kept, program=_named(project, folder), notes=notes)


_CHOSEN = re.compile(
    r"CMAKE_BUILD_TYPE|CMAKE_(CUDA|CXX|C|EXE_LINKER|SHARED_LINKER)_FLAGS(_\w+)?|CMAKE_PREFIX_PATH|(?!CMAKE_|_|FETCHCONTENT_)\w+"
)


def _cached_choices(cache: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the user chose for the build tree of their own: build type, flags and the project's options. What CMake found
    by itself (programs, libraries, folders) is found again."""
    chosen = []
    for line in read_text(cache).splitlines():
        entry = re.fullmatch(r"([\w.+-]+):(\w+)=(.*)", line)
        if entry and entry[2] in ("BOOL", "STRING") and _CHOSEN.fullmatch(entry[1]) and entry[3]:
            chosen.append(f"{entry[1]}={entry[3]}")
    return tuple(chosen), ((f"options of {cache.parent.name}/CMakeCache.txt",) if chosen else ())


def _one_file(file: Path, project: Project) -> BuildPlan | Problem:
    folder = file.parent
    if file.suffix.lower() not in SOURCES:
        return Problem(f"{file} is no CUDA, C or C++ source that could be built")
    database = find_database(folder, project.build.directory)
    if database is not None:
        units = read_database(database, folder)
        if not isinstance(units, Problem):
            own = tuple(u for u in units if u.source == file.name)
            if own:
                return _link(folder, project, own, f"flags from {database.name}", whole_folder=False)
    return _link(folder, project, (_unit(file.name),), f"nvcc {' '.join(DEFAULT_FLAGS)}", whole_folder=False)


def _all_sources(folder: Path, project: Project) -> BuildPlan | Problem:
    sources = sorted(p for p in folder.iterdir() if p.suffix.lower() in SOURCES and p.is_file())
    scripts = sorted(p for p in folder.glob("*.py") if _STARTS.search(read_text(p)))
    if not sources and len(scripts) == 1:
        return _python(folder, scripts[0], project)
    if not sources:
        return Problem(f"{folder} holds no source, CMakeLists.txt, Makefile or compile_commands.json; {_ADVICE}")
    included = {i for p in sources for i in closure([p]) if i != p}
    units = tuple(_unit(p.name) for p in sources if p not in included)
    return _link(folder, project, units, f"nvcc {' '.join(DEFAULT_FLAGS)} on all sources of the folder")


def _python(folder: Path, script: Path, project: Project) -> BuildPlan:
    """A Python program is compiled to see whether it is one; it makes its kernels as it runs."""
    return BuildPlan("python", folder, project.build.directory, program=script.name)


def _unit(source: str) -> Unit:
    return Unit(source, ("nvcc", *DEFAULT_FLAGS, "-c", source))


def _link(
    folder: Path, project: Project, units: Sequence[Unit], note: str, whole_folder: bool = True
) -> BuildPlan | Problem:
    mains = [u.source for u in units if _has_main(read_text(folder / u.source))]
    if len(mains) != 1:
        what = f"{len(mains)} programs ({', '.join(mains[:5])})" if mains else "no main function"
        return Problem(f"the sources of {folder} hold {what}, so that it is not known what to link; {_ADVICE}")
    libraries = sorted({lib for u in units for lib in _libraries(closure([folder / u.source]))})
    program = _named(project, folder) or f"{project.build.directory}/{Path(mains[0]).stem}"
    device_link = ("-rdc=true",) if any("-dc" in u.arguments or "-rdc=true" in u.arguments for u in units) else ()
    link = ("nvcc", *device_link, *(f"-l{name}" for name in libraries))
    return BuildPlan(
        "units", folder, project.build.directory, (), (), tuple(units), link, program, (note,), whole_folder
    )


def _has_main(text: str) -> bool:
    return _MAIN.search(_COMMENTS.sub(" ", text)) is not None


def _libraries(files: Iterable[Path]) -> set[str]:
    """Libraries whose headers are included."""
    names = {
        n
        for f in files
        for n in re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', read_text(f), re.MULTILINE)
    }
    return {_LIBRARIES[n] for n in names if n in _LIBRARIES}
