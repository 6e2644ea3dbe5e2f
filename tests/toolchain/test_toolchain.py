"""Where the toolkit is looked for, in which order, and what is said when it is not there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from stitchcuda.gpu_validate import toolchain
from stitchcuda.gpu_validate.toolchain import ask, find_cupti, find_nvcc, find_sanitizer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the made-up compilers are shell scripts")


@pytest.fixture(autouse=True)
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "wheel_roots", list)


def make_program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def make_toolkit(root: Path, version: str) -> Path:
    make_program(root / "bin" / "nvcc", f"echo 'Cuda compilation tools, release 13.0, V{version}'")
    (root / "include").mkdir()
    (root / "include" / "cuda_runtime.h").touch()
    return root


def test_order(tmp_path: Path) -> None:
    home, path = make_toolkit(tmp_path / "home", "13.0.1"), make_toolkit(tmp_path / "path", "13.0.2")
    setting = make_toolkit(tmp_path / "setting", "13.0.3")
    environment = {"CUDA_HOME": str(home), "PATH": str(path / "bin")}
    for given, source, root in (
        (find_nvcc(str(setting), environment), "setting", setting),
        (find_nvcc(str(setting / "bin" / "nvcc"), environment), "setting", setting),
        (find_nvcc("", environment), "CUDA_HOME", home),
        (find_nvcc("", {"PATH": str(path / "bin")}), "PATH", path),
    ):
        nvcc, problem = given
        assert nvcc is not None and (nvcc.source, nvcc.root, problem) == (source, root, "")


def test_a_wheel_comes_after_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_toolkit(tmp_path / "nvidia" / "cu13", "13.5.37")
    monkeypatch.setattr(toolchain, "wheel_roots", lambda: [wheel])
    nvcc, _ = find_nvcc("", {"PATH": ""})
    assert nvcc is not None and (nvcc.source, nvcc.version, nvcc.root) == ("wheel", "13.5.37", wheel)


def test_a_setting_that_does_not_work_ends_the_search(tmp_path: Path) -> None:
    environment = {"CUDA_HOME": str(make_toolkit(tmp_path / "home", "13.0.1"))}
    assert find_nvcc(str(tmp_path / "no" / "nvcc"), environment) == (
        None,
        f"setting: {tmp_path}/no/nvcc does not exist",
    )


def test_a_broken_compiler_is_named_and_passed_over(tmp_path: Path) -> None:
    make_program(tmp_path / "home" / "bin" / "nvcc", "echo no licence >&2; exit 3")
    path = make_toolkit(tmp_path / "path", "13.0.2")
    nvcc, problem = find_nvcc("", {"CUDA_HOME": str(tmp_path / "home"), "PATH": str(path / "bin")})
    assert nvcc is not None and nvcc.source == "PATH"
    assert problem == f"CUDA_HOME: {tmp_path}/home/bin/nvcc ended with 3: no licence"


def test_a_script_that_starts_nvcc_is_asked_for_its_toolkit(tmp_path: Path) -> None:
    body = f"""case "$1" in --version) echo V13.0.1;; *) echo '#$ TOP={tmp_path}/real/bin/..' >&2;; esac"""
    script = make_program(tmp_path / "scripts" / "bin" / "nvcc", body)
    make_program(
        tmp_path / "scripts" / "bin" / "cudafe++", "exit 0"
    )  # as /usr/local/bin may hold scripts for all of them
    nvcc, _ = find_nvcc(str(script))
    assert nvcc is not None and nvcc.root == tmp_path / "real"


def test_a_link_to_nvcc_belongs_to_its_toolkit(tmp_path: Path) -> None:
    real = make_toolkit(tmp_path / "real", "13.0.1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "nvcc").symlink_to(real / "bin" / "nvcc")
    nvcc, _ = find_nvcc("", {"PATH": str(tmp_path / "links")})
    assert nvcc is not None and nvcc.root == real


@pytest.mark.parametrize(
    ("include", "library"),
    [
        ("include", "lib64"),
        ("extras/CUPTI/include", "extras/CUPTI/lib64"),
        ("targets/x86_64-linux/include", "targets/x86_64-linux/lib"),
    ],
)
def test_cupti_in_every_layout(tmp_path: Path, include: str, library: str) -> None:
    name = "libcupti.dylib" if sys.platform == "darwin" else "libcupti.so.13"
    for folder in (include, library):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / include / "cupti.h").touch()
    assert find_cupti(tmp_path) is None
    (tmp_path / include / "cupti_version.h").write_text("#define CUPTI_API_VERSION 130000\n")
    (tmp_path / library / name).touch()
    cupti = find_cupti(tmp_path)
    assert cupti is not None
    assert (cupti.include, cupti.library.name, cupti.version) == (tmp_path / include, name, "130000")


def test_sanitizer_of_the_toolkit_first(tmp_path: Path) -> None:
    on_path = make_program(tmp_path / "path" / "compute-sanitizer", "exit 0")
    environment = {"PATH": str(tmp_path / "path")}
    assert find_sanitizer(None, environment) == on_path
    own = make_program(tmp_path / "root" / "bin" / "compute-sanitizer", "exit 0")
    assert find_sanitizer(tmp_path / "root", environment) == own


def test_ask_has_a_time_limit_and_names_what_went_wrong(tmp_path: Path) -> None:
    assert ask(["sleep", "60"], 0.1).problem == "no answer in 0.1 s"
    assert "could not be started" in ask([str(tmp_path / "none")]).problem
    assert ask([sys.executable, "-c", "print(1)"]) == toolchain.Answer("1\n")


@pytest.mark.nvcc
def test_the_compiler_here() -> None:
    nvcc, _ = find_nvcc()
    assert nvcc is not None
    assert list(nvcc.root.glob("**/cuda_runtime.h")), nvcc
