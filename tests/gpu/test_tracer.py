"""The tracer in programs that run on a GPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.processes import Ended, Limits
from stitchcuda.gpu_validate.toolchain import find_nvcc
from stitchcuda.gpu_validate.trace.library import tracer_library
from stitchcuda.gpu_validate.trace.measures import cuda_span, gpu_busy
from stitchcuda.gpu_validate.trace.model import NOT_RETURNED, Call, Trace
from stitchcuda.gpu_validate.trace.session import Delay, TraceRequest, run_traced

pytestmark = [pytest.mark.gpu, pytest.mark.nvcc]
PROGRAMS = Path(__file__).parents[1] / "fixtures" / "traces" / "programs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, built."""
    made = tmp_path_factory.mktemp("programs")
    nvcc, problem = find_nvcc()
    assert nvcc is not None, problem
    builds = [
        subprocess.Popen([nvcc.path, "-g", "-O2", "-std=c++17", "-o", made / source.stem, source])
        for source in sorted(PROGRAMS.glob("*.cu"))
    ]
    assert [build.wait() for build in builds] == [0] * len(builds)
    return made


def traced(
    folder: Path,
    program: str,
    *arguments: str,
    mode: str = "full",
    delays: tuple[Delay, ...] = (),
    poison: bool = False,
    seconds: float = 60.0,
) -> tuple[Ended, Trace]:
    command = [program if os.sep in program else str(folder / program), *arguments]
    ended, trace = run_traced(
        command,
        cwd=folder,
        env=None,
        limits=Limits(seconds=seconds),
        request=TraceRequest(mode, delays, poison),
        library=tracer_library(),
    )
    assert trace is not None
    assert trace.dropped == 0
    return ended, trace


def line_of(program: str, text: str) -> int:
    lines = (PROGRAMS / program).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def found(trace: Trace, api: str) -> list[Call]:
    return [call for call in trace.calls if call.api == api]


def test_full_mode_tells_lines_arguments_and_operations(folder: Path) -> None:
    ended, trace = traced(folder, "streams")
    assert ended.stdout == b"9433890 0\n"
    assert not trace.problems
    lines = [call.sites[0].line for call in found(trace, "cudaLaunchKernel")]
    assert lines == [line_of("streams.cu", "line: scale"), line_of("streams.cu", "line: add")]
    assert all(Path(call.sites[0].path).name == "streams.cu" for call in trace.calls)
    scale, add = found(trace, "cudaLaunchKernel")
    assert [site.function for site in scale.sites] == ["scale_all<float>", "main"]
    assert (scale.kernel, scale.grid, scale.block, scale.stream) == ("scale<float>", (256, 1, 1), (256, 1, 1), 1)
    a, b, out = [call.target for call in found(trace, "cudaMalloc")]
    assert scale.pointers == (a,)
    assert (add.kernel, add.pointers, add.stream) == ("add", (a, b, out), 2)
    assert found(trace, "cudaStreamWaitEvent")[0].event == found(trace, "cudaEventRecord")[0].event == 1
    assert [(s.number, s.origin, s.flags) for s in trace.streams] == [(1, "created", 0), (2, "created", 1)]
    by_call = {call.correlation: call for call in trace.calls}
    issued = [(op.kind, op.stream, by_call[op.correlation].api) for op in trace.ops if op.kind != "copy"]
    kernels = [("kernel", 1, "cudaLaunchKernel"), ("kernel", 2, "cudaLaunchKernel")]
    assert issued == [*kernels, ("memset", 2, "cudaMemsetAsync")]
    span, busy = cuda_span(trace), gpu_busy(trace)
    assert span is not None and busy is not None and 0 < busy < span < trace.end


def test_both_modes_tell_the_same_calls_and_contents(folder: Path) -> None:
    (_, full), (_, timing) = traced(folder, "streams"), traced(folder, "streams", mode="timing")
    assert [(c.api, c.stream, c.bytes) for c in full.calls] == [(c.api, c.stream, c.bytes) for c in timing.calls]
    assert [(r.call, r.digest) for r in full.reads] == [(r.call, r.digest) for r in timing.reads]
    assert all(read.digest for read in full.reads)
    assert not timing.ops and not any(call.sites for call in timing.calls)
    assert cuda_span(timing) is not None


@pytest.mark.parametrize(("wait", "printed"), [((), b"2\n"), (("wait",), b"1\n")])
def test_a_pause_in_a_stream_brings_a_race_to_light(folder: Path, wait: tuple[str, ...], printed: bytes) -> None:
    pause = Delay(stream=1, microseconds=5000)
    assert traced(folder, "reuse", *wait, mode="timing", delays=(pause,))[0].stdout == printed


def test_a_pause_elsewhere_changes_nothing(folder: Path) -> None:
    later = Delay(stream=1, microseconds=5000, skip=1)
    other = Delay(stream=7, microseconds=5000)
    assert traced(folder, "reuse", mode="timing", delays=(later, other))[0].stdout == b"1\n"


def test_new_memory_is_filled_on_request(folder: Path) -> None:
    assert traced(folder, "fresh", mode="timing", poison=True)[0].stdout == b"4b4b4b4b 4b4b4b4b\n"
    assert traced(folder, "fresh", mode="timing")[0].stdout != b"4b4b4b4b 4b4b4b4b\n"


def test_graphs(folder: Path) -> None:
    pause = Delay(stream=1, microseconds=1000)
    ended, trace = traced(folder, "graph", delays=(pause,))
    assert ended.stdout == b"2\n"
    assert [c.api for c in trace.calls if c.captured] == [
        "cudaLaunchKernel",
        "cudaEventRecord",
        "cudaStreamWaitEvent",
        "cudaMemcpyAsync",
        "cudaEventRecord",
        "cudaStreamWaitEvent",
    ]
    nodes = [(op.kind, op.graph_node != 0) for op in trace.ops]
    assert Counter(nodes) == {("memset", False): 1, ("kernel", True): 2, ("copy", True): 2}
    digests = [read.digest for read in trace.reads]
    assert len(digests) == len(set(digests)) == 2  # one for each launch, of different contents


def test_bytes_that_no_copy_writes_are_not_read(folder: Path) -> None:
    digests = []
    for filled in ("1", "2"):
        ended, trace = traced(folder, "rows", filled, mode="timing")
        assert ended.stdout == f"7 {filled}\n".encode()
        digests.append([read.digest for read in trace.reads])
    assert digests[0] == digests[1]
    rows, box, managed = digests[0]
    assert rows and not box and not managed  # a box and managed memory are left alone, and said to be unread


def test_a_killed_program_leaves_what_it_told(folder: Path) -> None:
    ended, trace = traced(folder, "ends", "kill")
    assert ended.signal == 9
    assert len(found(trace, "cudaLaunchKernel")) == 100
    assert len(trace.ops) == 100


def test_a_call_that_never_returns_is_named(folder: Path) -> None:
    ended, trace = traced(folder, "ends", "hang", seconds=5)
    assert ended.stopped == "seconds"
    assert trace.calls[-1].status == NOT_RETURNED
    assert trace.problems == (f"cudaDeviceSynchronize (call {trace.calls[-1].index}) did not return",)


def test_failed_calls_have_their_status(folder: Path) -> None:
    _, trace = traced(folder, "ends", "fail", mode="timing")
    failed = [(call.api, call.status) for call in trace.calls if call.status]
    assert failed == [("cudaLaunchKernel", 1), ("cudaMemcpy", 1)]


def test_a_child_of_a_fork_tells_nothing(folder: Path) -> None:
    ended, trace = traced(folder, "ends", "fork")
    assert ended.code == 0
    assert [call.api for call in trace.calls[-3:]] == [
        "cudaDeviceSynchronize",
        "cudaLaunchKernel",
        "cudaDeviceSynchronize",
    ]


def test_a_program_without_cuda(folder: Path) -> None:
    ended, trace = traced(folder, "/bin/echo", "hello")
    assert (ended.stdout, trace.context_end, trace.calls) == (b"hello\n", 0, ())


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="no CuPy")
def test_cupy(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import cupy\nx = cupy.arange(1000, dtype=cupy.float32) + 1\nprint(cupy.asnumpy(x)[:2])\n")
    ended, trace = traced(folder, sys.executable, str(script), seconds=120)
    assert ended.stdout == b"[1. 2.]\n"
    (add,) = [c for c in trace.calls if "add" in c.kernel]
    assert add.api == "cuLaunchKernel" and len(add.pointers) == 2
    assert [bool(read.digest) for read in trace.reads] == [True]
    assert not any(call.sites for call in trace.calls)  # CuPy's own sources are not here


def test_cost_of_a_call(folder: Path) -> None:
    def nanoseconds(mode: str) -> float:
        return min(float(traced(folder, "many", "20000", mode=mode)[0].stdout) for _ in range(3))

    plain = min(
        float(subprocess.run([folder / "many", "20000"], check=True, capture_output=True).stdout) for _ in range(3)
    )
    assert nanoseconds("timing") - plain < 3000
    assert nanoseconds("full") - plain < 16000
