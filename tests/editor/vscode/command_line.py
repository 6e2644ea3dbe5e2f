"""The command line for jobs of the server in tests: it begins once the file $STITCHCUDA_HOLD is gone, the GPU of `gate` is a record, and
`stitch` runs nothing, so that a machine with a GPU gives the same. All else is real."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from stitchcuda.server.cli import gate
from stitchcuda.server.cli.dispatch import main

from tests.server.programs.replayed_gate import Replaying

if __name__ == "__main__":
    print(json.dumps({"step": 1, "of": 4, "message": "reading the program"}), file=sys.stderr, flush=True)
    while os.path.exists(os.environ["STITCHCUDA_HOLD"]):
        time.sleep(0.02)
    if sys.argv[1] == "stitch":
        sys.argv.append("--no-run")
    scratch = Path(tempfile.mkdtemp(prefix="replayed-"))
    try:
        with patch.object(gate, "real_tools", Replaying(scratch).tools):
            code = main()
    finally:
        shutil.rmtree(scratch)
    sys.exit(code)
