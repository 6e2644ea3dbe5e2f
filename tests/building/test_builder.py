"""Versions built for real, with make and the host compiler: nothing here needs CUDA."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from stitchcuda.analysis.contract.project import BuildSection, Project, RunSection
from stitchcuda.gpu_validate.building import trees
from stitchcuda.gpu_validate.building.builder import Builder
from stitchcuda.gpu_validate.building.elf import NotElf, read_elf
from stitchcuda.gpu_validate.building.model import BuildFailed, Built
from stitchcuda.gpu_validate.removal import remove_tree
from stitchcuda.gpu_validate.version import Version

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("make", "g++"))), reason="needs make and g++")

PLAIN = Project()
MAKEFILE = """\
app: main.o part.o
\tg++ -o app main.o part.o
%.o: %.cpp
\tg++ -g -c $< -o $@
"""
MAIN = '#include "value.h"\n#include <cstdio>\nint part();\nint main() { std::printf("%d %d\\n", VALUE, part()); }\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "user" / "program"
    root.mkdir(parents=True)
    (root / "Makefile").write_text(MAKEFILE)
    (root / "main.cpp").write_text(MAIN)
    (root / "part.cpp").write_text('#include "value.h"\nint part() { return VALUE * 10; }\n')
    (root / "value.h").write_text("#define VALUE 1\n")
    return root


def state(root: Path) -> dict[str, tuple[int, str]]:
    return {
        str(p.relative_to(root)): (p.stat().st_mtime_ns, hashlib.sha256(p.read_bytes()).hexdigest())
        for p in root.rglob("*")
        if p.is_file()
    }


def builder(root: Path, tmp_path: Path, project: Project = PLAIN) -> Builder:
    return Builder(Version(root), project, scratch=tmp_path / "scratch", arch="sm_90")


def built(result: Built | BuildFailed) -> Built:
    assert isinstance(result, Built), result
    return result


def failed(result: Built | BuildFailed) -> BuildFailed:
    assert isinstance(result, BuildFailed), result
    return result


def output(build: Builder, result: Built | BuildFailed) -> str:
    version = built(result)
    with build.placed(version) as folder:
        assert version.run_command is not None
        return subprocess.run(version.run_command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_versions_are_built_and_run_at_one_path_and_the_tree_stays_as_it_was(tree: Path, tmp_path: Path) -> None:
    before = state(tmp_path / "user")
    build = builder(tree, tmp_path)
    original = build.build(Version(tree))
    changed = build.build(Version(tree, {"part.cpp": b"int part() { return 77; }\n"}))
    assert output(build, original) == "1 10\n"
    assert output(build, changed) == "1 77\n"
    assert built(original).run_command == built(changed).run_command
    assert state(tmp_path / "user") == before
    assert build.build(Version(tree)) is original


def test_only_what_changed_is_compiled_again(tree: Path, tmp_path: Path) -> None:
    build = builder(tree, tmp_path)
    build.build(Version(tree))
    changed = built(build.build(Version(tree, {"part.cpp": b"int part() { return 77; }\n"})))
    assert changed.log is not None
    log = changed.log.read_text()
    assert "part.cpp" in log and "main.cpp" not in log


def test_a_header_that_the_makefile_does_not_know_is_not_overlooked(tree: Path, tmp_path: Path) -> None:
    """make would find everything up to date, and the original's program would be judged in the version's place."""
    build = builder(tree, tmp_path)
    assert output(build, build.build(Version(tree))) == "1 10\n"
    assert output(build, build.build(Version(tree, {"value.h": b"#define VALUE 2\n"}))) == "2 20\n"


def test_a_source_that_another_includes_is_not_overlooked(tree: Path, tmp_path: Path) -> None:
    (tree / "part.cpp").write_text('#include "inner.cpp"\n')
    (tree / "inner.cpp").write_text("int part() { return 5; }\n")
    build = builder(tree, tmp_path)
    assert output(build, build.build(Version(tree))) == "1 5\n"
    assert output(build, build.build(Version(tree, {"inner.cpp": b"int part() { return 6; }\n"}))) == "1 6\n"


def test_objects_of_the_user_are_not_taken_for_ours(tree: Path, tmp_path: Path) -> None:
    """They may come from an older text; the copy is built from its sources."""
    (tree / "part.cpp").write_text("int part() { return 99; }\n")
    subprocess.run(["make"], cwd=tree, check=True, capture_output=True)
    (tree / "part.cpp").write_text("int part() { return 3; }\n")
    old = os.stat(tree / "main.cpp").st_mtime_ns - 10**12
    os.utime(tree / "part.cpp", ns=(old, old))
    build = builder(tree, tmp_path)
    assert output(build, build.build(Version(tree))) == "1 3\n"


def test_a_build_that_writes_to_its_sources_writes_to_the_copy(tree: Path, tmp_path: Path) -> None:
    (tree.parent / "beside").mkdir()
    (tree.parent / "beside" / "lib.cpp").write_text("int lib() { return 1; }\n")
    (tree / "data.bin").write_bytes(b"x" * (1 << 21))
    (tree / "Makefile").write_text(
        "all:\n\techo '// touched' >> main.cpp\n\techo y >> data.bin\n\techo '// touched' >> ../beside/lib.cpp\n"
        "\trm value.h && echo '#define VALUE 4' > value.h\n\tg++ main.cpp part.cpp ../beside/lib.cpp -o app\n"
    )
    before = state(tmp_path / "user")
    build = builder(tree, tmp_path)
    assert output(build, build.build(Version(tree))) == "4 40\n"
    assert state(tmp_path / "user") == before


def test_what_a_run_writes_is_gone_before_the_next(tree: Path, tmp_path: Path) -> None:
    build = builder(tree, tmp_path)
    version = built(build.build(Version(tree)))
    with build.placed(version) as folder:
        (folder / "main.cpp").write_text("ruined")
        (folder / "left.txt").write_text("behind")
    with build.placed(version) as folder:
        assert (folder / "main.cpp").read_text() == MAIN and not (folder / "left.txt").exists()
    assert not folder.exists()


def test_a_built_version_that_a_run_changed_is_not_run_again(tree: Path, tmp_path: Path) -> None:
    """The copies of all versions lie side by side: a candidate that slows the original down would look faster."""
    build = builder(tree, tmp_path)
    original = built(build.build(Version(tree)))
    other = built(build.build(Version(tree, {"value.h": b"#define VALUE 2\n"})))
    stamp = (original.tree / "app").stat()
    with build.placed(other):
        (original.tree / "app").write_bytes((original.tree / "app").read_bytes()[:-1] + b"x")
        os.utime(original.tree / "app", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(OSError, match="has changed it"), build.placed(original):
        pass
    with build.placed(other):
        pass
    assert "has changed it" in failed(build.build(Version(tree, {"value.h": b"#define VALUE 3\n"}))).reason


def test_no_build_finds_what_another_left_at_home(tree: Path, tmp_path: Path) -> None:
    (tree / "Makefile").write_text(MAKEFILE + "main.o: home\nhome:\n\ttest ! -e $(HOME)/left && touch $(HOME)/left\n")
    build = builder(tree, tmp_path)
    built(build.build(Version(tree)))
    built(build.build(Version(tree, {"value.h": b"#define VALUE 2\n"})))


def test_folders_that_are_hard_to_remove_are_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    (top / "closed").mkdir()
    (top / "closed" / "file").touch()
    (top / "closed").chmod(0)
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=descriptor)
        deeper = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.close(descriptor)
    remove_tree(top)
    assert not top.exists()
    remove_tree(top)


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (40, b"\xff" * 8),
        (32, b"\xff" * 8),
        (40, b"\xff" * 7 + b"\x7f"),
        (54, b"\xff" * 10),
        (60, b"\xff\xff"),
        (16, b""),
    ],
)
def test_a_damaged_program_is_no_program(offset: int, value: bytes) -> None:
    good = (Path(sys.executable).resolve()).read_bytes()[:1000]
    with pytest.raises(NotElf):
        read_elf(good[:offset] + value + good[offset + len(value) :])


def test_sections_that_are_the_same_bytes_again_and_again_are_not_copied() -> None:
    head = b"\x7fELF\x02\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 900, 0
    )
    section = struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 0, 50_000, 0, 0, 0, 0)
    with pytest.raises(NotElf, match="overlap"):
        read_elf(head + section * 900)


def test_a_name_that_is_no_text_names_a_version_all_the_same(tree: Path) -> None:
    name = os.fsdecode(b"\xff.h")
    assert Version(tree, {name: b"1"}).digest != Version(tree, {name: b"2"}).digest


def test_errors_name_the_users_file(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree.parent)
    root = Path("program")
    build = Builder(Version(root), Project(), scratch=tmp_path / "scratch", arch="sm_90")
    result = failed(build.build(Version(root, {"part.cpp": b"int part() {\n  return wrong;\n}\n"})))
    assert (result.diagnostics[0].path, result.diagnostics[0].line) == ("program/part.cpp", 2)
    assert result.reason.startswith("the build failed: program/part.cpp:2:") and not result.of_baseline
    assert result.log is not None and "wrong" in result.log.read_text()


def test_an_original_that_does_not_build_is_not_the_versions_fault(tree: Path, tmp_path: Path) -> None:
    (tree / "part.cpp").write_text("int part( {")
    result = failed(builder(tree, tmp_path).build(Version(tree, {"main.cpp": b"int main() {}\n"})))
    assert result.of_baseline and result.diagnostics[0].path == str(tree / "part.cpp")


def test_several_programs_are_asked_about(tree: Path, tmp_path: Path) -> None:
    (tree / "Makefile").write_text("all:\n\tg++ main.cpp part.cpp -o one\n\tcp one two\n")
    assert "makes 2 programs (one, two)" in failed(builder(tree, tmp_path).build(Version(tree))).reason
    project = Project(run=RunSection(command="./two"))
    again = Builder(Version(tree), project, scratch=tmp_path / "again", arch="sm_90")
    command = built(again.build(Version(tree))).run_command
    assert command is not None and Path(command[0]).name == "two"
    absent = Builder(
        Version(tree), Project(run=RunSection(command="./three")), scratch=tmp_path / "third", arch="sm_90"
    )
    assert "made no three" in failed(absent.build(Version(tree))).reason


def test_a_program_that_came_with_the_tree_is_not_taken_for_the_builds(tree: Path, tmp_path: Path) -> None:
    shutil.copy("/bin/true", tree / "old")
    build = builder(tree, tmp_path)
    assert output(build, build.build(Version(tree))) == "1 10\n"


def test_a_command_of_the_projects_own(tree: Path, tmp_path: Path) -> None:
    project = Project(build=BuildSection(command="mkdir -p out && g++ *.cpp -o out/app"))
    build = builder(tree, tmp_path, project)
    assert output(build, build.build(Version(tree))) == "1 10\n"


def test_a_cancelled_build_is_no_failure_and_is_not_remembered(tree: Path, tmp_path: Path) -> None:
    (tree / "Makefile").write_text("all:\n\tsleep 30\n\tg++ main.cpp part.cpp -o app\n")
    asked = threading.Event()
    asked.set()
    build = Builder(Version(tree), Project(), scratch=tmp_path / "scratch", arch="sm_90", cancel=asked.is_set)
    assert failed(build.build(Version(tree))).limit == "cancelled"


def test_texts_outside_of_the_folder_are_refused(tree: Path, tmp_path: Path) -> None:
    result = failed(builder(tree, tmp_path).build(Version(tree, {"../escape.cpp": b""})))
    assert "outside" in result.reason and not (tmp_path / "escape.cpp").exists()


def test_a_linked_source_is_replaced_and_not_written_through(tree: Path, tmp_path: Path) -> None:
    real = tmp_path / "user" / "real.cpp"
    real.write_text("int part() { return 8; }\n")
    (tree / "part.cpp").unlink()
    (tree / "part.cpp").symlink_to("../real.cpp")
    build = builder(tree, tmp_path)
    assert output(build, build.build(Version(tree, {"part.cpp": b"int part() { return 9; }\n"}))) == "1 9\n"
    assert real.read_text() == "int part() { return 8; }\n"


def test_a_python_program_is_compiled_and_runs_where_it_was_placed(tmp_path: Path) -> None:
    root = tmp_path / "user"
    root.mkdir()
    (root / "main.py").write_text("import part\nif __name__ == '__main__':\n    print(part.VALUE)\n")
    (root / "part.py").write_text("VALUE = 3\n")
    before = state(root)
    for start in (root, root / "main.py"):
        build = Builder(Version(start), PLAIN, scratch=tmp_path / "scratch" / start.name, arch="sm_90")
        assert output(build, build.build(Version(start))) == "3\n"
        assert output(build, build.build(Version(start, {"part.py": b"VALUE = 4\n"}))) == "4\n"
        wrong = failed(build.build(Version(start, {"main.py": b"x = 1\nif x\n"})))
        assert (wrong.diagnostics[0].path, wrong.diagnostics[0].line) == (str(root / "main.py"), 2)
    assert state(root) == before


def test_a_tree_without_room_for_its_copies_is_refused(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "COPIES", 1 << 60)
    assert "would not fit" in failed(builder(tree, tmp_path).build(Version(tree))).reason


def test_copies_do_not_go_into_the_tree_itself(tree: Path) -> None:
    build = Builder(Version(tree), PLAIN, scratch=tree / "scratch", arch="sm_90")
    assert "lies in the program's own folder" in failed(build.build(Version(tree))).reason


@pytest.mark.parametrize("compiler", ["nvcc", "cd . && nvcc", "/nowhere/bin/nvcc"])
def test_a_compiler_that_is_not_there_is_no_fault_of_the_program(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    """With or without a shell: make starts a plain command itself."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("make", "sh"):
        (tools / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setattr("stitchcuda.gpu_validate.building.builder.find_nvcc", lambda setting="": (None, ""))
    (tree / "Makefile").write_text(f"app: main.cpp\n\t{compiler} -o app main.cpp\n")
    failed = builder(tree, tmp_path).build(Version(tree))
    assert isinstance(failed, BuildFailed) and failed.missing_tool, failed
