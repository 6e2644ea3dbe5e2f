"""When the analysis process is given up: for what it did without a word, never for how long a busy machine takes."""

from __future__ import annotations

import os
import time

import pytest
from stitchcuda.server.engine.stuck import Silence, processor_seconds


class Machine:
    """A process looked at each five seconds, which gets a share of the processor."""

    def __init__(self, tells: bool = True) -> None:
        self.now = self.used = 0.0
        self.silence = Silence(lambda _: self.used if tells else None, lambda: self.now)

    def after(self, seconds: float, share: float) -> str:
        """What is said of it in that time."""
        end = self.now + seconds
        while self.now < end:
            why = self.silence.why_stuck(1)
            if why:
                return why
            self.now += 5.0
            self.used += 5.0 * share
        return ""


def test_a_long_analysis_on_a_busy_machine_goes_on() -> None:
    assert Machine().after(3000, 0.03) == ""  # 90 s of the processor in 50 minutes


def test_one_that_runs_for_ever_ends() -> None:
    machine = Machine()
    assert "of the processor" in machine.after(3000, 1.0)
    assert 120 < machine.now <= 130


def test_one_that_waits_for_ever_ends() -> None:
    machine = Machine()
    assert machine.after(60, 1.0) == ""
    assert "did nothing" in machine.after(3000, 0.0)
    assert 180 < machine.now <= 190


def test_each_word_is_a_new_beginning() -> None:
    machine = Machine()
    for _ in range(50):
        assert machine.after(100, 1.0) == ""
        machine.silence.heard()


def test_where_the_system_does_not_tell_the_clock_counts() -> None:
    machine = Machine(tells=False)
    assert "no sign" in machine.after(3000, 1.0)
    assert 600 < machine.now <= 610


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="this system does not tell what a process uses")
def test_what_a_process_uses() -> None:
    before = processor_seconds(os.getpid())
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    after = processor_seconds(os.getpid())
    assert before is not None and after is not None and 0.1 < after - before < 5
    assert processor_seconds(2**22 + 1) is None
