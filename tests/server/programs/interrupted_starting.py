"""Interrupted just when a worker exists that has not been told yet what to run."""

import os
import signal
import sys
import time
from multiprocessing import resource_tracker, util

from stitchcuda.server.workers import map_in_processes

from tests.server.programs import batch_work

if __name__ == "__main__":
    resource_tracker.ensure_running()  # a process too, not a worker
    spawn = util.spawnv_passfds

    def interrupted(*arguments):  # type: ignore[no-untyped-def]
        pid = spawn(*arguments)
        if sys.argv[1] == "group":  # as a terminal does: the worker too, once Python runs in it
            time.sleep(0.1)
            os.killpg(os.getpgrp(), signal.SIGINT)
        else:
            os.kill(os.getpid(), signal.SIGINT)
        return pid

    util.spawnv_passfds = interrupted
    try:
        list(map_in_processes(batch_work.square, [1, 2], 2))
    except KeyboardInterrupt:
        sys.exit(130)
