"""What compilers and tools say, as they say it."""

from __future__ import annotations

from pathlib import Path

from stitchcuda.gpu_validate.building.diagnostics import for_user, new_warnings, read_diagnostics, read_spills
from stitchcuda.gpu_validate.building.model import Diagnostic

OUTPUT = """\
/p/main.cu(12): error: identifier "x" is undefined
      x = 3;
      ^
/p/main.cu(3): warning #177-D: variable "y" was declared but never referenced
kernels.cuh(40): error #20: expected a ";"
/p/host.cpp:7:10: fatal error: nothing.h: No such file or directory
/p/host.cpp:9:3: warning: unused variable 'z' [-Wunused-variable]
/usr/bin/ld: main.o: in function `main':
/p/main.cu:5: undefined reference to `missing()'
/usr/bin/ld: cannot find -lnothing: No such file or directory
nvcc fatal   : Unsupported gpu architecture 'compute_60'
ptxas error   : Entry function 'f' uses too much shared data (0x20000 bytes, 0xc000 max)
nvlink error   : Undefined reference to 'g' in 'a.o'
CMake Error at CMakeLists.txt:4 (find_package):
  Could not find a package configuration file provided by "Absent"

Makefile:3: *** missing separator.  Stop.
make: *** No rule to make target 'absent'.  Stop.
/bin/sh: 1: nvcc: not found
ptxas info    : Used 12 registers, used 1 barriers
nvcc warning : '--device-debug (-G)' overrides '--generate-line-info (-lineinfo)'
nvlink warning : Resource usage is not shown as the final resource allocation is not done.
2 errors detected in the compilation of "main.cu".
"""


def test_every_form() -> None:
    found = [(d.severity, d.path, d.line, d.message) for d in read_diagnostics(OUTPUT)]
    assert found == [
        ("error", "/p/main.cu", 12, 'identifier "x" is undefined'),
        ("warning", "/p/main.cu", 3, 'variable "y" was declared but never referenced'),
        ("error", "kernels.cuh", 40, 'expected a ";"'),
        ("error", "/p/host.cpp", 7, "nothing.h: No such file or directory"),
        ("warning", "/p/host.cpp", 9, "unused variable 'z' [-Wunused-variable]"),
        ("error", "/p/main.cu", 5, "undefined reference to `missing()'"),
        ("error", "", 0, "cannot find -lnothing: No such file or directory"),
        ("error", "", 0, "Unsupported gpu architecture 'compute_60'"),
        ("error", "", 0, "Entry function 'f' uses too much shared data (0x20000 bytes, 0xc000 max)"),
        ("error", "", 0, "Undefined reference to 'g' in 'a.o'"),
        (
            "error",
            "CMakeLists.txt",
            4,
            'find_package: Could not find a package configuration file provided by "Absent"',
        ),
        ("error", "Makefile", 3, "missing separator.  Stop."),
        ("error", "", 0, "No rule to make target 'absent'.  Stop."),
        ("error", "", 0, "nvcc: not found"),
    ]


def test_paths_are_those_of_the_user(tmp_path: Path) -> None:
    place, folder = tmp_path / "place" / "app", tmp_path / "user" / "app"
    for base in (place, folder):
        (base / "sub").mkdir(parents=True)
        (base / "sub" / "a.cu").write_text("")
    (folder.parent / "common.h").write_text("")
    said = [
        Diagnostic("error", f"in {place}/sub/a.cu", str(place / "sub" / "a.cu"), 1),
        Diagnostic("error", "", "a.cu", 2),
        Diagnostic("error", "", "../sub/a.cu", 3),
        Diagnostic("error", "", str(place.parent / "common.h"), 4),
        Diagnostic("error", "", "/usr/include/stdio.h", 5),
    ]
    paths = [d.path for d in for_user(said, place, folder, "app", (".", "sub"))]
    assert paths == [
        "app/sub/a.cu",
        "app/sub/a.cu",
        "app/sub/a.cu",
        str(folder.parent / "common.h"),
        "/usr/include/stdio.h",
    ]
    assert for_user(said, place, folder, "app", (".",))[0].message == "in app/sub/a.cu"


def test_a_warning_that_moved_is_not_new() -> None:
    before = [Diagnostic("warning", "unused x", "a.cu", 3)]
    after = [Diagnostic("warning", "unused x", "a.cu", 9), Diagnostic("warning", "unused x", "a.cu", 20)]
    assert new_warnings(after, before) == after[1:]


def test_spills_are_taken_only_from_a_report_that_follows_its_kernel() -> None:
    report = """\
ptxas info    : Function properties for _Z1fPf
    96 bytes stack frame, 40 bytes spill stores, 60 bytes spill loads
ptxas info    : Function properties for _Z1gPf
ptxas info    : Used 12 registers
    0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
"""
    assert read_spills(report) == {"_Z1fPf": 100}
