"""Runs a batch that never ends, to be interrupted."""

import sys

from stitchcuda.server.workers import map_in_processes

from tests.server.programs import batch_work

if __name__ == "__main__":
    list(map_in_processes(batch_work.start_child, [sys.argv[1]] * 2, 2))
