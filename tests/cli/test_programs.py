"""How `check` splits a tree into programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from stitchcuda.server import program
from stitchcuda.server.cli import inputs, programs

KERNEL = "__global__ void k(float* v);\n"
MAIN = "int main() { cudaDeviceSynchronize(); }\n"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> programs.Plan:
    """A tree of two applications, a library and headers."""
    monkeypatch.chdir(tmp_path)
    files = {
        "one/main.cu": '#include "part.h"\n#include "../lib/solver.h"\n' + MAIN,
        "one/part.cu": '#include "part.h"\n' + KERNEL,
        "one/part.h": KERNEL,
        "one/notes.cpp": "int unrelated();\n",
        "two/main.cu": "#include <common/check.h>\n" + MAIN,
        "lib/solver.h": "void solve();\n",
        "lib/solver.cu": '#include "solver.h"\n' + KERNEL,
        "include/common/check.h": "#define CHECK(x) x\n",
        "plain/main.cpp": "int main() {}\n",
        "only/kernels.cuh": KERNEL,
        "tool.py": "print(1)\n",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    return programs.plan(inputs.find(["."]).files, ["."])


def test_programs(plan: programs.Plan) -> None:
    groups = {str(g).removeprefix("./"): (set(g.sources), set(g.context)) for g in plan.groups}
    assert groups == {
        "one/main.cu": (
            {"./one/main.cu", "./one/part.cu", "./one/notes.cpp"},
            {"./one/part.h", "./lib/solver.h", "./lib/solver.cu"},
        ),
        "two/main.cu": ({"./two/main.cu"}, {"./include/common/check.h"}),
        "lib/solver.cu": ({"./lib/solver.cu"}, {"./lib/solver.h"}),
        "only/kernels.cuh": ({"./only/kernels.cuh"}, set()),
    }
    assert not plan.problems and not plan.unusable


def test_a_directory_too_large_for_one_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(program, "MAX_BYTES", 100)
    for name in ("a.cu", "b.cu"):
        Path(name).write_text('#include "c.h"\nvoid f() { cudaDeviceSynchronize(); }\n' + "// filler\n" * 10)
    Path("c.h").write_text(KERNEL)
    groups = programs.plan(inputs.find(["."]).files, ["."]).groups
    assert [(g.sources, g.context) for g in groups] == [(("./a.cu",), ("./c.h",)), (("./b.cu",), ("./c.h",))]


def test_sources_that_all_have_a_main_are_programs_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.cu", "b.cu"):
        Path(name).write_text('#include "c.h"\n' + MAIN)
    Path("c.h").write_text(KERNEL)
    assert sets(["."]) == [({"./a.cu"}, {"./c.h"}), ({"./b.cu"}, {"./c.h"})]
    Path("work.cu").write_text(KERNEL)
    assert sets(["."]) == [({"./a.cu", "./b.cu", "./work.cu"}, {"./c.h"})], "it may be part of both"


def sets(paths: list[str]) -> list[tuple[set[str], set[str]]]:
    groups = programs.plan(inputs.find(paths).files, paths).groups
    return [(set(group.sources), set(group.context)) for group in groups]


def test_the_program_is_the_one_of_the_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the repository says it in a folder above those that were named, and its headers declare what another folder defines."""
    (tmp_path / ".git").mkdir()
    files = {
        "CMakeLists.txt": "project(p CUDA)\nadd_executable(p src/main.cu src/kernels/work.cu)\n",
        "src/main.cu": '#include "../lib/solver.h"\n' + MAIN,
        "src/kernels/work.cu": KERNEL,
        "lib/CMakeLists.txt": "project(lib CUDA)\n",
        "lib/solver.h": "void solve();\n",
        "lib/solver.cu": KERNEL,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path / "src")
    assert sets(["."]) == [({"./main.cu", "./kernels/work.cu"}, {"../lib/solver.h", "../lib/solver.cu"})]
    main = str(tmp_path / "src" / "main.cu")
    found = program.of(main, [str(tmp_path)])
    assert set(found.sources) == {main, str(tmp_path / "src" / "kernels" / "work.cu")}
    assert program.library(str(tmp_path / "lib")) == [str(tmp_path / "lib" / "solver.cu")]
