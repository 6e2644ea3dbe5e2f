"""The tracer's shared library: built from `native/` on first use and kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from stitchcuda.gpu_validate.cache_folder import cache_folder
from stitchcuda.gpu_validate.toolchain import Cupti, find_cupti, find_nvcc

NATIVE = Path(__file__).with_name("native")
COMPILERS = ("g++", "c++", "clang++")
FLAGS = ("-std=c++17", "-O2", "-Wall", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,--no-undefined")
BUILD_SECONDS = 120.0


class NoTracer(Exception):
    """The text says what is missing for tracing and what to do."""


def tracer_library(nvcc: str = "", cache: Path | None = None) -> Path:
    """The built library; `nvcc` is the user's setting for the compiler (as in `find_nvcc`), which says what toolkit's CUPTI to
    use. Raises NoTracer."""
    if os.name == "nt":
        raise NoTracer("tracing needs Linux: on Windows the CUDA driver is not asked to load the tracer yet")
    found, _ = find_nvcc(nvcc)
    cupti = find_cupti(found.root if found else None)
    if cupti is None:
        raise NoTracer(
            "tracing needs CUPTI, which was found neither in the CUDA toolkit nor in this Python environment; install the "
            "toolkit's CUPTI, or pip install nvidia-cuda-cupti in the version of the driver"
        )
    compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        raise NoTracer(f"tracing needs a C++ compiler to build its library ({', '.join(COMPILERS)}); none is on PATH")
    includes = _includes(cupti, found.root if found else None)
    return _build(compiler, cupti, includes, (cache or cache_folder()) / "tracer")


def _includes(cupti: Cupti, root: Path | None) -> list[Path]:
    """The folders of cupti.h and of cuda.h."""
    if (cupti.include / "cuda.h").is_file():
        return [cupti.include]
    places = [root / "include", *sorted(root.glob("targets/*/include"))] if root else []
    cuda = next((place for place in places if (place / "cuda.h").is_file()), None)
    if cuda is None:
        raise NoTracer(
            f"tracing needs cuda.h, which was not found beside {cupti.include}; install the CUDA toolkit's headers"
        )
    return [cupti.include, cuda]


def _build(compiler: str, cupti: Cupti, includes: list[Path], folder: Path) -> Path:
    sources = sorted(NATIVE.glob("*.cpp"))
    command = [compiler, *FLAGS, *(f"-I{path}" for path in includes), *map(str, sources)]
    command += [str(cupti.library), f"-Wl,-rpath,{cupti.library.parent}", "-ldl", "-lpthread"]
    digest = hashlib.blake2b("\0".join([cupti.version, *command]).encode(), digest_size=8)
    for path in sorted(NATIVE.iterdir()):
        if path.is_file():
            digest.update(path.read_bytes())
    target = folder / f"cupti{cupti.version}-{digest.hexdigest()}" / "libstitchcuda_trace.so"
    if target.is_file():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            made = Path(scratch) / target.name
            done = subprocess.run(
                [*command, "-o", str(made)],
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=BUILD_SECONDS,
            )
            if done.returncode != 0:
                first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:300])
                raise NoTracer(
                    f"the tracer's library could not be built with {compiler} and CUPTI {cupti.version}: {first}"
                )
            os.replace(made, target)  # two builders at once: the last one wins, both are the same
    except subprocess.TimeoutExpired:
        raise NoTracer(f"the tracer's library was not built by {compiler} in {BUILD_SECONDS:g} s") from None
    except OSError as error:
        raise NoTracer(f"the tracer's library cannot be kept in {target.parent}: {error.strerror or error}") from None
    return target
