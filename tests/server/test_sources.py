"""Which files are ours, and which belong to a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stitchcuda.server import program, sources


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.cu", "", True),
        ("a.cuh", "", True),
        ("a.cpp", "int main() {}", False),
        ("a.cpp", "#include <cuda_runtime.h>", True),
        ("a.cpp", '#  include "cublas_v2.h"', True),
        ("a.h", "__global__ void k();", True),
        ("a.c", "void f() { k<<<1, 2>>>(); }", True),
        ("a.cpp", "<<<<<<< HEAD\nint x;\n=======\n>>>>>>> other\n", False),
        ("a.cpp", "std::cout <<<x;", False),
        ("a.cpp", '#include "engine.h"\nvoid f() { cudaDeviceSynchronize(); }', True),
        ("a.cpp", "void f(float* x) { cudaFree (x); }", True),
        ("a.cpp", "void f(CUfunction k) { cuLaunchKernel(k); }", True),
        ("a.cpp", '#include "src/engine.cuh"', True),
        ("a.cpp", '#include "engine.h"', False),
        ("a.cpp", "bool cudaEnabled = false;  // cuda (not built in)", False),
        ("a.cpp", "void cuMem();", False),
        ("a.py", "import cupy as cp", True),
        ("a.py", "from cupyx import jit", True),
        ("a.py", "import torch", False),
        ("a.txt", "__global__", False),
    ],
)
def test_relevance(path: str, text: str, expected: bool) -> None:
    assert sources.is_relevant(path, "", text.encode()) is expected


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def names(found: dict[str, bytes], root: Path) -> list[str]:
    return [Path(path).relative_to(root).as_posix() for path in found]


def test_includes_are_followed_and_cycles_end(tmp_path: Path) -> None:
    write(
        tmp_path,
        a_cu='#include "b.h"\n#include <vector>',
        b_h='#include "sub/c.h"\n#include "gone.h"',
        sub__c_h='#include "../b.h"',
    )
    path = tmp_path / "a.cu"
    found = sources.includes(str(path), path.read_bytes(), sources.read_file)
    assert names(found, tmp_path) == ["b.h", "sub/c.h"]


def test_includes_through_the_compile_database(tmp_path: Path) -> None:
    write(tmp_path, src__a_cu='#include "b.h"', deep__inc__b_h="")
    path = tmp_path / "src" / "a.cu"
    entry = {"directory": str(tmp_path), "file": "src/a.cu", "command": "nvcc -Ideep/inc -c src/a.cu"}
    build = tmp_path / "build"
    build.mkdir()
    (build / "compile_commands.json").write_text(json.dumps([entry]), encoding="utf-8")
    folders = sources.include_folders(str(path), [str(tmp_path)])
    found = sources.includes(str(path), path.read_bytes(), sources.read_file, folders)
    assert names(found, tmp_path) == ["deep/inc/b.h"]
    (build / "compile_commands.json").write_text("[3", encoding="utf-8")
    assert str(tmp_path / "deep" / "inc") not in sources.include_folders(str(path), [str(tmp_path)])


def test_imports_of_python(tmp_path: Path) -> None:
    write(tmp_path, a_py="import cupy\nfrom b import f\nimport os", b_py="")
    path = tmp_path / "a.py"
    assert names(sources.includes(str(path), path.read_bytes(), sources.read_file), tmp_path) == ["b.py"]


@pytest.mark.parametrize(
    ("place", "clangd"),
    [
        ("p/cmake-build-debug", ""),
        ("p/out", ""),
        ("build-p", ""),
        ("far/away", "CompileFlags:\n  CompilationDatabase: ../far/away  # where it is built\n"),
    ],
)
def test_a_compile_database_in_a_build_folder_elsewhere(tmp_path: Path, place: str, clangd: str) -> None:
    write(tmp_path, p__src__a_cu='#include "b.h"', p__deep__inc__b_h="")
    path, build = tmp_path / "p" / "src" / "a.cu", tmp_path / place
    build.mkdir(parents=True)
    where = "../p/deep/inc"
    if place.startswith("p/"):
        where = "../deep/inc"
    elif place.startswith("far"):
        where = "../../p/deep/inc"
    entry = {"directory": str(build), "file": str(path), "arguments": ["nvcc", "-I", where, "-c", "a.cu"]}
    (build / "compile_commands.json").write_text(json.dumps([entry]), encoding="utf-8")
    found = str(tmp_path / "p" / "deep" / "inc")
    if clangd:
        assert found not in sources.include_folders(str(path), [str(tmp_path / "p")])
        (tmp_path / "p" / ".clangd").write_text(clangd, encoding="utf-8")
    assert found in sources.include_folders(str(path), [str(tmp_path / "p")])


def test_what_is_no_text_is_not_read(tmp_path: Path) -> None:
    for name, content in (("a.cu", "int x;".encode("utf-16")), ("b.cu", b"\x7fELF\0\1")):
        (tmp_path / name).write_bytes(content)
        assert sources.read_file(str(tmp_path / name)) is None
    (tmp_path / "c.cu").write_bytes(b"\xef\xbb\xbfint x;")
    assert sources.read_file(str(tmp_path / "c.cu")) == b"int x;"


def entry_for(build: Path, source: Path, folder: Path) -> None:
    build.mkdir(parents=True)
    entry = {"directory": str(build), "file": str(source), "arguments": ["nvcc", "-I", str(folder), "-c", str(source)]}
    (build / "compile_commands.json").write_text(json.dumps([entry]), encoding="utf-8")


def test_what_is_looked_for_above_a_file(tmp_path: Path) -> None:
    """Up to the workspace's folder, elsewhere to the root of the repository, else nowhere: include folders and programs alike."""
    write(tmp_path, p__src__kernels__a_cu="", p__deep__b_h="", p__Makefile="")
    source, deep = tmp_path / "p" / "src" / "kernels" / "a.cu", tmp_path / "p" / "deep"
    entry_for(tmp_path / "p" / "build", source, deep)

    def found(*tops: Path) -> tuple[bool, bool]:
        folders = [str(top) for top in tops]
        home = program.home(str(source), folders)
        return str(deep) in sources.include_folders(str(source), folders), home is not None

    assert found(tmp_path) == (True, True)
    assert found(tmp_path / "p") == (True, True)
    assert found(tmp_path / "p" / "src" / "kernels") == (False, False)
    assert found() == found(tmp_path / "elsewhere") == (False, False)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "p")
    assert found(link) == (True, True)
    (tmp_path / ".git").mkdir()
    assert found() == found(tmp_path / "elsewhere") == (True, True)


def test_a_repository_in_the_workspace_is_a_program_of_its_own_that_the_rest_may_build(tmp_path: Path) -> None:
    write(tmp_path, Makefile="", part__src__a_cu="", deep__b_h="")
    source, deep = tmp_path / "part" / "src" / "a.cu", tmp_path / "deep"
    entry_for(tmp_path / "build", source, deep)
    assert program.home(str(source), [str(tmp_path)]) == str(tmp_path)
    (tmp_path / "part" / ".git").write_text("gitdir: ../.git/modules/part", encoding="utf-8")
    assert program.home(str(source), [str(tmp_path)]) is None
    assert str(deep) in sources.include_folders(str(source), [str(tmp_path)])
