"""Killed when its workers wait for more; one of them came in the place of one that crashed."""

import os
import signal
import sys
import threading

from stitchcuda.server.workers import map_in_processes

from tests.server.programs import batch_work

if __name__ == "__main__":
    if sys.argv[1] == "spawn":  # as it is done beside threads
        threading.active_count = lambda: 2
    results = map_in_processes(batch_work.who, ["a", "crash", *"bcdefghi", "last"], 3)
    print(*{pid for pid in (next(results) for _ in range(10)) if isinstance(pid, int)}, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
