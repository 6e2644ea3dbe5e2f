"""Which files of a folder are the program."""

from __future__ import annotations

from pathlib import Path

from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.version import Version
from stitchcuda.server.cli import inputs


def test_what_builds_make_is_left_out_and_nothing_that_sounds_like_it(tmp_path: Path) -> None:
    """`check` and `stitch` must read one program: a proof about part of it is none."""
    for folder in (
        "build",
        "build-debug",
        "cmake-build-release",
        ".hidden",
        "venv",
        "builder",
        "building_blocks",
        "venvs",
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.cu").write_text(f"// {folder}\n")
    analysed = set(analyse(Version(tmp_path)).sources)
    assert analysed == {"builder/a.cu", "building_blocks/a.cu", "venvs/a.cu"}
    assert {Path(p).relative_to(tmp_path).as_posix() for p in inputs.find([str(tmp_path)]).files} == analysed
