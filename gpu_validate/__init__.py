"""The validation hub (`hub.py`): builds two versions (`building/`), runs and traces them (`trace/`), compares what they show (`observe/`)
and gives a verdict gate by gate (`gates/`). Beside it what this machine has: `capabilities.py`, `toolchain.py`, `nvml.py`."""
