"""Batch work in processes: order, crashes, cancellation, and nothing left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stitchcuda.analysis.program.ir import Problem
from stitchcuda.server.lifetime import is_alive
from stitchcuda.server.workers import map_in_processes, rare_collections

from tests.server.programs import batch_work

ROOT = Path(__file__).parents[2]


def test_results_come_in_order() -> None:
    assert list(map_in_processes(batch_work.square, range(20), 3)) == [n * n for n in range(20)]
    assert list(map_in_processes(batch_work.square, [], 3)) == []


def test_what_costs_most_is_begun_first(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    items = [(str(begun), number) for number in (1, 5, 3, 4)]
    assert list(map_in_processes(batch_work.note, items, 1, cost=lambda item: item[1])) == [1, 5, 3, 4]
    assert begun.read_text().split() == ["5", "4", "3", "1"]


def test_batch_work_collects_rarely() -> None:
    usual = gc.get_threshold()
    (inside,) = map_in_processes(batch_work.collects_after, [0], 1)
    with rare_collections():
        assert gc.get_threshold() == inside != usual
    assert gc.get_threshold() == usual


def test_a_crash_and_an_exception_cost_one_item_each() -> None:
    results = list(map_in_processes(batch_work.fragile, ["a", "crash", "b", "raise", "c"], 2))
    assert [r for r in results if not isinstance(r, Problem)] == ["a", "b", "c"]
    crash, raised = results[1], results[3]
    assert isinstance(crash, Problem) and "exit code 7" in crash.what and crash.path == "crash"
    assert isinstance(raised, Problem) and "ValueError at batch_work.py" in raised.what
    assert "secret" not in raised.what


def test_cancel() -> None:
    began = time.monotonic()
    assert list(map_in_processes(batch_work.sleep, [30, 30], 2, cancel=lambda: time.monotonic() > began + 0.5)) == []
    assert time.monotonic() - began < 25


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupt_kills_workers_and_their_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = [sys.executable, "-m", "tests.server.programs.batch_main", str(pids)]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    end = time.monotonic() + 20
    while time.monotonic() < end and (not pids.exists() or len(pids.read_text().split()) < 4):
        time.sleep(0.05)
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 4
    os.killpg(process.pid, signal.SIGINT)
    process.wait(20)
    end = time.monotonic() + 20
    while time.monotonic() < end and any(map(is_alive, started)):
        time.sleep(0.02)
    assert not [pid for pid in started if is_alive(pid)]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_end_when_their_parent_is_killed(start: str) -> None:
    command = [sys.executable, "-m", "tests.server.programs.batch_killed", start]
    killed = subprocess.run(command, cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, timeout=60, check=False)
    workers = [int(pid) for pid in killed.stdout.split()]
    assert killed.returncode == -signal.SIGKILL and len(workers) > 1
    end = time.monotonic() + 20
    while time.monotonic() < end and any(map(is_alive, workers)):
        time.sleep(0.02)
    assert not [pid for pid in workers if is_alive(pid)]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("whom", ["process", "group"])
def test_an_interrupt_while_a_worker_starts_leaves_no_traceback_of_it(whom: str, start: str) -> None:
    if start == "fork" and sys.platform != "linux":
        pytest.skip("forks on Linux")
    command = [sys.executable, "-m", "tests.server.programs.interrupted_starting", whom, start]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        start_new_session=True,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
