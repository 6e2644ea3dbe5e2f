"""The real command line on a machine without a CUDA compiler, where nothing of CUDA is built, which takes most of a run's time. With
the variable WORDS it only says what would be asked; any other command writes its words to that file and finds nothing to change."""

import json
import os
import sys
from pathlib import Path

from stitchcuda.gpu_validate import toolchain

if __name__ == "__main__":
    if (file := os.environ.get("WORDS")) and "--questions" not in sys.argv:
        Path(file).write_text(json.dumps(sys.argv[1:]))
        print(json.dumps({"outcome": "no_safe_change", "reason": "scripted", "run_dir": "", "units": []}))
        sys.exit(0)
    toolchain.find_nvcc = lambda *_, **__: (None, "there is none")
    from stitchcuda.server.cli.dispatch import main

    sys.exit(main())
