"""Programs that do to the tracer's file what they should not. None of them uses CUDA, so that no GPU is needed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.processes import Limits, clean_environment
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.trace.session import TraceRequest, run_traced

FILE = "import mmap, os; file = int(os.environ['STITCHCUDA_TRACE_FD']); "


def traced(folder: Path, program: str) -> tuple[int | None, Trace | None]:
    ended, trace = run_traced(
        [sys.executable, "-I", "-S", "-c", FILE + program],
        cwd=folder,
        env=clean_environment(),
        limits=Limits(seconds=20),
        request=TraceRequest("full"),
        library=folder / "none.so",
    )
    return ended.code, trace


@pytest.mark.parametrize(
    "program", ["os.ftruncate(file, 0)", "os.ftruncate(file, 5000)", "os.ftruncate(file, 1 << 45)"]
)
def test_the_file_cannot_be_cut_or_grown(tmp_path: Path, program: str) -> None:
    code, trace = traced(tmp_path, program)
    assert code == 1 and trace is not None  # the program met the error


@pytest.mark.parametrize(
    "program",
    [
        "os.pwrite(file, b'x' * 4096, 0)",
        "os.pwrite(file, b'\\xff' * 8, 8)",  # its own size
        "os.pwrite(file, b'\\xff' * 8, 16); os.pwrite(file, b'\\x63\\x68\\x6e\\x6b' * 1000, 4096)",
    ],
)
def test_rubbish_is_no_trace(tmp_path: Path, program: str) -> None:
    assert traced(tmp_path, program) == (0, None)
