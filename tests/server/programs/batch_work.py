"""Functions for worker processes."""

import gc
import os
import subprocess
import sys
import time


def square(number: int) -> int:
    time.sleep(0.01 * (number % 3))
    return number * number


def note(item: tuple[str, int]) -> int:
    """Notes in a file that the work has begun."""
    with open(item[0], "a", encoding="ascii") as begun:
        begun.write(f"{item[1]}\n")
    return item[1]


def collects_after(_: int) -> tuple[int, int, int]:
    return gc.get_threshold()


def fragile(word: str) -> str:
    if word == "crash":
        os._exit(7)
    if word == "raise":
        raise ValueError("secret")
    return word


def who(word: str) -> int:
    """Which process does it; takes a moment, so that each has something to do."""
    time.sleep(0.2)
    return os.getpid() if fragile(word) else 0


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def start_child(file: str) -> None:
    """Starts a process that would outlive us, and notes both."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with open(file, "a", encoding="ascii") as pids:
        pids.write(f"{os.getpid()} {child.pid}\n")
    time.sleep(60)
