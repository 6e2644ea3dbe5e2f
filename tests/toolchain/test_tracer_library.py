"""The tracer's library: it builds, and a program may load it where no driver is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.processes import Limits
from stitchcuda.gpu_validate.toolchain import find_cupti, find_nvcc
from stitchcuda.gpu_validate.trace import library
from stitchcuda.gpu_validate.trace.library import NoTracer, tracer_library
from stitchcuda.gpu_validate.trace.session import TraceRequest, run_traced

LOAD = """
import ctypes, os
print(ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection())
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
print([libc.getenv(name) for name in (b"CUDA_INJECTION64_PATH", b"STITCHCUDA_TRACE_FD")])
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found, _ = find_nvcc()
    if find_cupti(found.root if found else None) is None:
        pytest.skip("no CUPTI")
    return tracer_library(cache=tmp_path_factory.mktemp("cache"))


@pytest.mark.nvcc
def test_it_is_built_once(built: Path) -> None:
    before = built.stat().st_mtime_ns
    assert tracer_library(cache=built.parents[2]) == built
    assert built.stat().st_mtime_ns == before
    assert [path.name for path in built.parent.iterdir()] == [built.name]


@pytest.mark.nvcc
def test_it_loads_without_a_driver_and_leaves_no_variables(built: Path, tmp_path: Path) -> None:
    ended, trace = run_traced(
        [sys.executable, "-c", LOAD],
        cwd=tmp_path,
        env=dict(os.environ),
        limits=Limits(seconds=60),
        request=TraceRequest("timing"),
        library=built,
    )
    assert ended.stdout.split(b"\n")[:2] == [b"1", b"[None, None]"], ended.stderr
    assert trace is not None
    assert any("driver's library is not loaded" in problem for problem in trace.problems)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "find_cupti", lambda root: None)
    with pytest.raises(NoTracer, match="CUPTI"):
        tracer_library(cache=tmp_path)


@pytest.mark.nvcc
def test_a_build_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, built: Path) -> None:
    monkeypatch.setattr(library, "FLAGS", (*library.FLAGS, "-DDATA=nonsense("))
    with pytest.raises(NoTracer, match="could not be built with .*error"):
        tracer_library(cache=tmp_path)
