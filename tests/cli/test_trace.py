"""`stitchcuda trace`, with programs that use no CUDA."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.health import probe_gpu
from stitchcuda.gpu_validate.trace.library import NoTracer
from stitchcuda.gpu_validate.trace.store import from_json
from stitchcuda.server.cli import trace
from stitchcuda.server.cli.dispatch import main


@pytest.fixture(autouse=True)
def no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of these programs loads the driver, so nothing asks for the tracer."""
    monkeypatch.setattr(trace, "tracer_library", lambda nvcc: tmp_path / "none.so")


def no_gpu() -> str:
    """What is said where nothing can be traced."""
    problem = probe_gpu()
    return f"stitchcuda: {problem}\n" if problem else ""


def test_the_trace_goes_to_stdout_and_the_output_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--format", "json", "--", "/bin/sh", "-c", "echo out; echo err >&2"]) == 0
    out, err = capfd.readouterr()
    assert from_json(json.loads(out)).context_end == 0
    assert err == f"out\nerr\n{no_gpu()}"


def test_a_file_takes_the_trace(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "trace.json"
    assert main(["trace", "--format", "perfetto", "-o", str(target), "--", "/bin/sh", "-c", "echo out; exit 3"]) == 1
    assert "traceEvents" in json.loads(target.read_text())
    out, err = capfd.readouterr()
    assert out == "out\n"
    assert err == f"{no_gpu()}stitchcuda: /bin/sh ended with 3\n"


def test_a_file_that_ends_in_json_takes_the_trace_as_json(tmp_path: Path) -> None:
    """`graph --trace` reads it."""
    target = tmp_path / "trace.json"
    assert main(["trace", "-o", str(target), "--", "/bin/true"]) == 0
    assert from_json(json.loads(target.read_text())).context_end == 0


def test_the_summary_says_that_no_cuda_was_used(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "/bin/echo"]) == 0
    assert "no process of the program used CUDA" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trace"], "no command; write it behind --"),
        (["trace", "--timeout", "0", "--", "true"], "--timeout 0: give a number of seconds above 0"),
        (["trace", "--", "no-such-program"], "no-such-program could not be started: it is not there"),
    ],
)
def test_what_cannot_run_is_said(words: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert said in capfd.readouterr().err


def test_a_missing_tracer_is_said(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def missing(nvcc: str) -> Path:
        raise NoTracer("tracing needs CUPTI")

    monkeypatch.setattr(trace, "tracer_library", missing)
    assert main(["trace", "--", "true"]) == 2
    assert capfd.readouterr().err == "stitchcuda: tracing needs CUPTI\n"
