"""Signals while a command works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stitchcuda.server.interrupting import ended_like_interrupted
from stitchcuda.server.lifetime import is_alive


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX")
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_the_first_signal_ends_it_and_the_second_does_not_disturb(number: str) -> None:
    mine = getattr(signal, number)
    before = signal.getsignal(mine)
    tidied = False
    with pytest.raises(KeyboardInterrupt), ended_like_interrupted():
        try:
            os.kill(os.getpid(), mine)
        finally:
            os.kill(os.getpid(), mine)
            os.kill(os.getpid(), signal.SIGTERM)
            tidied = True
    assert tidied and signal.getsignal(mine) is before


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with ended_like_interrupted():
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/task"), reason="which processes belong to a command is read from /proc"
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_check_of_many_programs_takes_its_processes_along(tmp_path: Path, number: signal.Signals) -> None:
    loops = "".join(f"    for (int i{k} = 0; i{k} < n; ++i{k}) f{k}(d, i{k}, s[i{k} % 3]);\n" for k in range(60))
    body = "".join(
        f"__global__ void k{k}(float* d) {{ d[threadIdx.x] += {k}; }}\n"
        f"void f{k}(float* d, int n, cudaStream_t s) {{ if (n) k{k}<<<1, n, 0, s>>>(d + n); }}\n"
        for k in range(60)
    )
    for each in range(24):
        text = f"{body}int main() {{\n    float* d; int n = {each}; cudaStream_t s[3];\n    cudaMalloc(&d, 4096);\n{loops}}}\n"
        (tmp_path / f"program{each}.cu").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "stitchcuda.server.cli", "check", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    children: list[int] = []
    end = time.monotonic() + 30
    while not children and time.monotonic() < end and process.poll() is None:
        time.sleep(0.02)
        children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    assert children, process.communicate()
    process.send_signal(number)
    _, told = process.communicate(timeout=20)
    assert process.returncode == 130 and told == b""
    end = time.monotonic() + 5  # multiprocessing's own helper ends when it notices
    while any(map(is_alive, children)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not [pid for pid in children if is_alive(pid)]
