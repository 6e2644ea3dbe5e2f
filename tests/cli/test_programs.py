"""How `check` splits a tree into programs."""

from __future__ import annotations

from pathlib import Path

import pytest
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
    monkeypatch.setattr(programs, "_MAX_BYTES", 100)
    for name in ("a.cu", "b.cu"):
        Path(name).write_text('#include "c.h"\n' + MAIN + "// filler\n" * 10)
    Path("c.h").write_text(KERNEL)
    groups = programs.plan(inputs.find(["."]).files, ["."]).groups
    assert [(g.sources, g.context) for g in groups] == [(("./a.cu",), ("./c.h",)), (("./b.cu",), ("./c.h",))]
