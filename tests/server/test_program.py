"""What the program of a file is, from the disk."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from stitchcuda.server import program
from stitchcuda.server.program import Place, Program

MAIN = "int main() { return 0; }\n"
PROJECT = "project(p LANGUAGES CXX CUDA)\n"


def write(top: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def of(top: Path, name: str) -> tuple[str, set[str]]:
    """The program's name and sources, below the workspace."""
    found = program.of(str(top / name), [str(top)])
    return shown(found.name, top), {shown(p, top) for p in found.sources}


def root(top: Path, name: str) -> str:
    return shown(program.root(str(top / name), [str(top)]), top)


def shown(path: str, top: Path) -> str:
    return Path(path).relative_to(top).as_posix()


def test_a_folder_that_says_how_it_is_built(tmp_path: Path) -> None:
    files = {
        "p/Makefile": "",
        "p/main.cu": MAIN,
        "p/src/deep/a.cu": "",
        "p/src/a.cuh": "",
        "p/build/made.cu": "",
        "p/third_party/lib/other.cu": "",
        "p/tool/Makefile": "",
        "p/tool/tool.cu": MAIN,
        "beside.cu": MAIN,
    }
    write(tmp_path, files)
    sources = {"p/main.cu", "p/src/deep/a.cu"}
    for name in ("p/main.cu", "p/src/deep/a.cu", "p/src/a.cuh"):
        assert of(tmp_path, name) == ("p", sources) and root(tmp_path, name) == "p"
    assert (
        of(tmp_path, "p/tool/tool.cu") == ("p/tool", {"p/tool/tool.cu"})
        and root(tmp_path, "p/tool/tool.cu") == "p/tool"
    )
    assert of(tmp_path, "p/third_party/lib/other.cu")[0] == "p/third_party/lib", "it is no part of what uses it"
    assert root(tmp_path, "beside.cu") == "beside.cu"


@pytest.mark.parametrize(
    ("file", "text", "counts"),
    [
        ("CMakeLists.txt", PROJECT, True),
        ("CMakeLists.txt", "target_sources(p PRIVATE a.cu)\n", False),
        ("stitchcuda.toml", "", True),
        ("stitchcuda.toml", '[build]\ncommand = "make"\n[check]\nignore = ["leak"]\n', True),
        ("stitchcuda.toml", '[check]\nignore = ["leak"]\n', False),
        ("stitchcuda.toml", "[check\n", True),
        ("GNUmakefile", "", True),
        ("compile_commands.json", "[]", True),
        ("README.md", "", False),
    ],
)
def test_what_says_how_a_folder_is_built(file: str, text: str, counts: bool, tmp_path: Path) -> None:
    write(tmp_path, {"a/b/x.cu": MAIN, "a/b/y.cu": MAIN, f"a/{file}": text})
    assert (root(tmp_path, "a/b/x.cu") == "a") is counts


def test_a_part_of_a_project_belongs_to_it_while_that_is_not_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"CMakeLists.txt": PROJECT, "app/main.cu": MAIN, "lib/CMakeLists.txt": "", "lib/a.cu": "", "lib/x/b.cu": ""}
    write(tmp_path, {f"p/{name}": text for name, text in files.items()})
    assert of(tmp_path, "p/lib/x/b.cu") == ("p", {"p/app/main.cu", "p/lib/a.cu", "p/lib/x/b.cu"})
    monkeypatch.setattr(program, "MAX_FILES", 2)
    assert of(tmp_path, "p/lib/x/b.cu") == ("p/lib", {"p/lib/a.cu", "p/lib/x/b.cu"})
    monkeypatch.setattr(program, "MAX_FILES", 1)
    assert of(tmp_path, "p/lib/x/b.cu") == ("p/lib/x", {"p/lib/x/b.cu"})
    monkeypatch.setattr(program, "MAX_FILES", 0)
    assert of(tmp_path, "p/lib/x/b.cu") == ("p/lib/x/b.cu", set())
    assert root(tmp_path, "p/lib/x/b.cu") == "p", "it is built as a whole all the same"


def test_each_main_is_a_program_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, {"one.cu": MAIN, "two.cu": "// int main()\n" + MAIN, "work.cu": "// int main()\nvoid f();\n"})
    assert of(tmp_path, "one.cu") == ("one.cu", {"work.cu"})
    assert of(tmp_path, "two.cu") == ("two.cu", {"work.cu"})
    assert of(tmp_path, "work.cu") == (".", {"one.cu", "two.cu", "work.cu"})
    for name in ("one.cu", "two.cu", "work.cu"):
        assert root(tmp_path, name) == name, "what is linked to what is not known"


def test_a_file_that_samples_share_is_looked_at_for_some_that_use_it(tmp_path: Path) -> None:
    write(tmp_path, {f"s{n:02}.cu": MAIN for n in range(30)})
    write(
        tmp_path,
        {
            f"s{n:02}.cu": f"int main() {{ {use} }}\n"
            for n, use in ((3, "fill(x);"), (7, "refill(x);"), (9, "fill (y);"))
        },
    )
    write(
        tmp_path,
        {
            "shared.cu": "void fill(float *x) {\n    if (x) copy(x);\n}\n",
            "common.h": "int f();\n",
            "s20.cu": '#include "common.h"\n' + MAIN,
        },
    )
    assert of(tmp_path, "shared.cu") == ("shared.cu", {"shared.cu", "s03.cu", "s09.cu"})
    assert of(tmp_path, "common.h") == ("common.h", {"shared.cu", "s20.cu"})
    assert of(tmp_path, "s03.cu") == ("s03.cu", {"shared.cu"})
    write(tmp_path, {f"s{n:02}.cu": "int main() { fill(x); }\n" for n in range(10, 30)})
    assert len(of(tmp_path, "shared.cu")[1]) == 9


def test_a_small_program_need_not_say_how_it_is_built(tmp_path: Path) -> None:
    write(tmp_path, {"p/main.cu": MAIN, "p/work.cu": "", "alone/main.cu": MAIN, "top/main.cu": MAIN, "top/work.cu": ""})
    write(tmp_path, {"top/more/work.cu": ""})
    assert root(tmp_path, "p/work.cu") == "p"
    assert root(tmp_path, "alone/main.cu") == "alone/main.cu"
    assert root(tmp_path, "top/main.cu") == "top/main.cu", "whose the sources below are is not known"
    assert program.root(str(tmp_path / "p" / "work.cu"), []) == str(tmp_path / "p" / "work.cu"), "not in the workspace"


def test_outside_of_the_workspace_only_the_repository_is_looked_at(tmp_path: Path) -> None:
    write(tmp_path, {"Makefile": "", "a/x.cu": "", "r/Makefile": "", "r/b/y.cu": ""})
    (tmp_path / "r" / ".git").mkdir()
    assert program.root(str(tmp_path / "a" / "x.cu"), []) == str(tmp_path / "a" / "x.cu")
    assert program.root(str(tmp_path / "r" / "b" / "y.cu"), []) == str(tmp_path / "r")
    assert root(tmp_path, "r/b/y.cu") == "r", "a repository inside of the workspace is none of its programs"


def test_a_workspace_that_is_a_link(tmp_path: Path) -> None:
    write(tmp_path, {"real/Makefile": "", "real/src/a.cu": ""})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for opened in ("link", "real"):
        path = str(tmp_path / opened / "src" / "a.cu")
        assert program.root(path, [str(tmp_path / "link")]) == str(tmp_path / opened)


def test_what_has_no_place_is_by_itself() -> None:
    assert program.of("untitled:Untitled-1.cu", ["/"]) == Program("untitled:Untitled-1.cu")
    assert program.root("untitled:Untitled-1.cu", ["/"]) == "untitled:Untitled-1.cu"


def test_the_sources_of_a_header_that_lies_elsewhere(tmp_path: Path) -> None:
    write(
        tmp_path, {"lib/solver.h": "", "lib/solver.cu": "", "lib/in/x.cu": "", "app/helpers.h": "", "app/main.cu": MAIN}
    )
    assert program.library(str(tmp_path / "lib")) == [str(tmp_path / "lib" / "solver.cu")]
    assert program.library(str(tmp_path / "app")) == [], "those of another program"


def test_a_huge_folder_is_not_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {f"data/{n}.bin": "" for n in range(20)} | {"a.cu": ""})
    assert program.below(Place(str(tmp_path))) == [str(tmp_path / "a.cu")]
    monkeypatch.setattr(program, "_MOST_ENTRIES", 10)
    assert program.below(Place(str(tmp_path))) is None


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("int main() {}", True),
        ("int\nmain(int n, char** v) {}", True),
        ("__host__ int main(void) {}", True),
        ("[[nodiscard]] int main() {}", True),
        ("int32_t main() {}", True),
        ("int __cdecl main() {}", True),
        ('extern "C" int main() {}', True),
        ("__attribute__((used)) int main() {}", True),
        ("/* the entry */ int main() {}", True),
        ("#if 0\nvoid f();\n#else\nint main() {}\n#endif", True),
        ("#if 0\n#if 1\nvoid f();\n#endif\n#endif\nint main() {}", True),
        ("#ifdef TEST\nint main() {}\n#endif", True),
        ('const char* s = "/*";\nint main() {}', True),
        ("// int main() {}", False),
        ("/*\nint main() {}\n*/", False),
        ("/*\nint main() {}\n", False),
        ("#if 0\nint main() {}\n#endif", False),
        ("#if 0 // old\nint main() {}\n#endif", False),
        ("#if 0\n#if 1\n#else\nint main() {}\n#endif\nint main() {}\n#endif", False),
        ("int f() {\n    return main(0);\n}", False),
        ("int f() { if (x) g();\n    else main(0);\n}", False),
        ("    int x = main(0);", False),
        ("static int main() {}", False),
        ("int domain() {}", False),
        ("int main_loop() {}", False),
    ],
)
def test_what_is_a_main(text: str, there: bool) -> None:
    assert program.has_main("a.cu", text.encode()) is there


def test_sources_from_elsewhere_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = "add_executable(p main.cu ../shared/a.cu ../shared/b.cu)\n"
    write(tmp_path, {"p/CMakeLists.txt": PROJECT + named, "p/main.cu": MAIN, "p/in/c.cu": "", "shared/a.cu": ""})
    write(tmp_path, {"shared/b.cu": "// " + "x" * 200})
    everything = {"p/main.cu", "p/in/c.cu", "shared/a.cu", "shared/b.cu"}
    assert of(tmp_path, "p/in/c.cu") == ("p", everything)
    monkeypatch.setattr(program, "MAX_FILES", 3)
    assert of(tmp_path, "p/in/c.cu") == ("p/in", {"p/in/c.cu"}), "none is left out silently"
    monkeypatch.setattr(program, "MAX_FILES", 4)
    monkeypatch.setattr(program, "MAX_BYTES", 200)
    assert of(tmp_path, "p/in/c.cu") == ("p/in", {"p/in/c.cu"})


def test_the_names_of_a_long_file_are_found_in_proportion_to_its_length(tmp_path: Path) -> None:
    write(tmp_path, {f"s{n:02}.cu": MAIN for n in range(30)} | {"s07.cu": "int main() { fill(x); }\n"})
    write(tmp_path, {"s08.cu": "int main() { drain(x); }\n"})
    table = "enum Code {\n" + "    first\n,second\nthird,\n" * 5 + "};\n"
    write(tmp_path, {"shared.cu": table + "void\nfill(float *x) {\n}\nstatic void *drain(float *x) {}\n"})
    assert of(tmp_path, "shared.cu")[1] == {"shared.cu", "s07.cu", "s08.cu"}
    assert seconds(8_000) < 8 * max(seconds(2_000), 0.001)


def seconds(lines: int) -> float:
    """What it costs to look for the users of a file with so many lines that define nothing."""
    text = b"CODE_OF_AN_ERROR,\n" * lines
    costs = []
    for _ in range(3):
        began = time.process_time()
        assert program._users("/a/b.cu", [], lambda path: text) == []
        costs.append(time.process_time() - began)
    return min(costs)
