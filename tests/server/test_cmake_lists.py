"""What is read from a CMakeLists.txt: sources and include folders, and nothing invented."""

from __future__ import annotations

from pathlib import Path

from stitchcuda.server.cmake_lists import CMakeFile, beside, parse
from stitchcuda.server.program import Place, below
from stitchcuda.server.sources import include_folders

TEXT = """
cmake_minimum_required(VERSION 3.18)  # sources.cu in a comment
set(SHARED ${CMAKE_CURRENT_SOURCE_DIR}/../shared)
set(KERNELS kernels.cu more.cu)
list(APPEND KERNELS last.cu)
if(WITH_TESTS)
  add_executable(app main.cu ${KERNELS} ${SHARED}/images.cpp)
endif()
add_library(core STATIC $<TARGET_OBJECTS:other> core.cc ${UNKNOWN}/lost.cu)
target_include_directories(app PRIVATE include "${SHARED}" $<BUILD_INTERFACE:no>)
message("add_executable(fake fake.cu)")
"""


def test_sources_and_folders() -> None:
    read = parse(TEXT, "/p/app")
    assert read.sources == tuple(
        f"/p/{name}"
        for name in ("app/main.cu", "app/kernels.cu", "app/more.cu", "app/last.cu", "shared/images.cpp", "app/core.cc")
    )
    assert read.include_folders == ("/p/app/include", "/p/shared")


def test_what_begins_a_project() -> None:
    assert not parse(TEXT, "/p").project
    assert parse("cmake_minimum_required(VERSION 3.18)\nPROJECT(app LANGUAGES CXX CUDA)\n", "/p").project
    assert not parse("# project(app)\n", "/p").project


def test_relative_folders_stay_relative() -> None:
    assert parse(TEXT, "app").include_folders == ("app/include", "shared")


def test_broken_text_says_nothing() -> None:
    for text in ("", "add_executable(", "add_executable(x ${", "set()", "((((", "add_executable()\n\0"):
        assert parse(text, "/p") == CMakeFile()


def test_no_file() -> None:
    assert beside("/nowhere/at/all") == CMakeFile()


def test_the_server_finds_sources_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "app" / "CMakeLists.txt").write_text(TEXT)
    (tmp_path / "app" / "main.cu").write_text("int main() {}\n")
    (tmp_path / "shared" / "images.cpp").write_text("void load() {}\n")
    assert below(Place(str(tmp_path / "app"))) == [
        str(tmp_path / "app" / "main.cu"),
        str(tmp_path / "shared" / "images.cpp"),
    ]
    assert str(tmp_path / "shared") in include_folders(str(tmp_path / "app" / "main.cu"), [str(tmp_path)])
