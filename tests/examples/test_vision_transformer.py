"""The two versions of the vision transformer example: they compile without warnings, agree with the CPU, and agree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.toolchain import find_nvcc

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAIVE, EXPERT = EXAMPLES / "vit", EXAMPLES / "vit_expert"
SHARED = ("kernels.cu", "options.cpp", "images.cpp", "host_weights.cpp", "reference.cpp")
ARCHITECTURE = "sm_90"
IMAGES = 6


def sources(version: Path) -> list[Path]:
    own = [p for p in sorted(version.iterdir()) if p.suffix in (".cu", ".cpp")]
    return own if version == NAIVE else own + [NAIVE / name for name in SHARED]


def build(version: Path, program: Path, *flags: str) -> str:
    """Builds one version and gives back what the compiler printed."""
    nvcc, _ = find_nvcc()
    assert nvcc is not None
    paths = [f"-L{folder}" for folder in (nvcc.root / "lib", nvcc.root / "lib64") if folder.is_dir()]
    command = [str(nvcc.path), "-std=c++17", f"-arch={ARCHITECTURE}", "-Xcompiler", "-Wall", *flags, *paths]
    command += [f"-I{version}", f"-I{NAIVE}", "-o", str(program), *map(str, sources(version))]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("version", [NAIVE, EXPERT], ids=lambda p: p.name)
def test_compiles_without_warnings(version: Path, tmp_path: Path) -> None:
    assert "warning" not in build(version, tmp_path / "program", "--threads", "2")


@pytest.mark.gpu
@pytest.mark.nvcc
def test_both_versions_agree_with_the_cpu_and_with_each_other(tmp_path: Path) -> None:
    results = {}
    for version in (NAIVE, EXPERT):
        program, images = tmp_path / version.name, tmp_path / "images"
        build(version, program, "-O3", "--threads", "4")
        if not images.exists():
            subprocess.run([program, "--make-images", images, "--count", str(IMAGES)], check=True, timeout=60)
        done = subprocess.run([program, images, "--check"], check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        results[version] = [line for line in done.stdout.splitlines() if " class " in line]
    assert len(results[NAIVE]) == IMAGES
    assert results[NAIVE] == results[EXPERT]
