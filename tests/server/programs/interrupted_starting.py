"""Interrupted just when a worker exists that has not been told yet what to run."""

import os
import signal
import sys
import threading
import time
from multiprocessing import resource_tracker, util

from stitchcuda.server.workers import map_in_processes

from tests.server.programs import batch_work

if __name__ == "__main__":
    whom, start = sys.argv[1:]
    resource_tracker.ensure_running()  # a process too, not a worker
    spawn, fork = util.spawnv_passfds, os.fork

    def interrupt() -> None:
        if whom == "group":  # as a terminal does: the worker too, once Python runs in it
            time.sleep(0.1)
            os.killpg(os.getpgrp(), signal.SIGINT)
        else:
            os.kill(os.getpid(), signal.SIGINT)

    def interrupted(*arguments):  # type: ignore[no-untyped-def]
        pid = spawn(*arguments)
        interrupt()
        return pid

    def interrupted_fork() -> int:
        pid = fork()
        if pid:
            interrupt()
        return pid

    util.spawnv_passfds, os.fork = interrupted, interrupted_fork
    if start == "spawn":  # as it is done beside threads
        threading.active_count = lambda: 2
    try:
        list(map_in_processes(batch_work.square, [1, 2], 2))
    except KeyboardInterrupt:
        sys.exit(130)
