"""Signals while a command works."""

from __future__ import annotations

import os
import signal

import pytest
from stitchcuda.server.cli.interrupting import ended_like_interrupted


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
