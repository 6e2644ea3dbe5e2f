"""Kernels as people write them, each once right and once with a barrier missing or in the wrong place.

`twins/*.cu` name the code in their first line; lines that end in `// only: ok` or `// only: bad` stand in one of the two.
`right/*.cu` are right in ways that are hard to see.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.toolchain import find_nvcc

from tests.pure.kernel.findings import shown, variant

TWINS = sorted((Path(__file__).parent / "twins").glob("*.cu"))
RIGHT = sorted((Path(__file__).parent / "right").glob("*.cu"))


def test_there_are_many() -> None:
    assert len(TWINS) >= 30


@pytest.mark.parametrize("path", TWINS, ids=lambda p: p.stem)
def test_the_bad_one_is_found_and_the_good_one_is_not(path: Path) -> None:
    text = path.read_text()
    code = re.match(r"// code: (\S+)", text)
    assert code is not None
    assert set(shown(variant(text, "bad"))) == {code[1]}
    assert shown(variant(text, "ok")) == []


@pytest.mark.parametrize("path", RIGHT, ids=lambda p: p.stem)
def test_what_is_right_is_left_alone(path: Path) -> None:
    assert shown(path.read_text()) == []


@pytest.mark.nvcc
@pytest.mark.parametrize("path", TWINS, ids=lambda p: p.stem)
def test_both_compile(path: Path, tmp_path: Path) -> None:
    nvcc, _ = find_nvcc()
    assert nvcc is not None
    for which in ("bad", "ok"):
        source = tmp_path / f"{which}.cu"
        source.write_text(variant(path.read_text(), which))
        command = [str(getattr(nvcc, "path", nvcc)), "-std=c++17", "-arch=sm_90", "-c", str(source), "-o", "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
