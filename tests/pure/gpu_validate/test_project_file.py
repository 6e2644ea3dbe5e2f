"""Which file says how a program is built: the nearest one, stitchcuda.toml before pyproject.toml, not beyond the repository."""

from __future__ import annotations

from pathlib import Path

import pytest
from stitchcuda.gpu_validate.project_file import ProjectError, find_file, find_project


def _write(folder: Path, name: str, timeout: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    section = "run" if name == "stitchcuda.toml" else "tool.stitchcuda.run"
    (folder / name).write_text(f"[{section}]\ntimeout = {timeout}\n", encoding="utf-8")
    return folder / name


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    source = tmp_path / "repository" / "src" / "deep" / "a.cu"
    source.parent.mkdir(parents=True)
    source.touch()
    _write(tmp_path, "stitchcuda.toml", 1)
    assert find_file(source) is None, "outside of a repository only the program's folder is looked at"
    (tmp_path / "repository" / ".git").mkdir()
    assert find_file(source) is None, "nothing above the repository"
    root = _write(tmp_path / "repository", "pyproject.toml", 2)
    assert find_file(source) == find_file(source.parent) == root
    assert find_project(source).run.timeout == 2
    _write(tmp_path / "repository", "stitchcuda.toml", 3)
    assert find_project(source).run.timeout == 3
    _write(source.parent, "pyproject.toml", 4)
    assert find_project(source).run.timeout == 4


def test_a_pyproject_of_others_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.black]\nline-length = 9\n", encoding="utf-8")
    assert find_file(tmp_path) is None


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"[run]\ntimeout = 'long'\n", "run.timeout: expected seconds"), (b"[run\n", "not valid TOML"), (b"\xff\xfe", "is not UTF-8")],
)  # fmt: skip
def test_mistakes_name_the_file(content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "stitchcuda.toml").write_bytes(content)
    with pytest.raises(ProjectError, match=told) as error:
        find_project(tmp_path)
    assert str(tmp_path / "stitchcuda.toml") in str(error.value)
