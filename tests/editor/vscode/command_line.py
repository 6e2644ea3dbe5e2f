"""The command line for jobs of the server in tests: it begins once the file $STITCHCUDA_HOLD is gone, and the GPU of `gate` is a record.
With the file $STITCHCUDA_AGREE, what `stitch` and `validate` would build and run passes (`Agreeing`); without it `stitch` runs nothing,
and `validate` finds no GPU, so that a machine with one gives the same. All else is real."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from stitchcuda.agent import machinery
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.building.model import BuildFailed
from stitchcuda.gpu_validate.hub import BaselineMeasured, Hub
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.tools import Tools
from stitchcuda.gpu_validate.verdict import GATES, GateResult, GateState, Interval, Verdict, decide
from stitchcuda.gpu_validate.version import Version
from stitchcuda.server.cli import gate, validate
from stitchcuda.server.cli.dispatch import main

from tests.server.programs.replayed_gate import Replaying


class Agreeing(Hub):
    """SIMULATED: nothing is built or run, and each gate that would passes. The analysis and the proof are real."""

    def measure(self) -> BaselineMeasured:
        return BaselineMeasured()

    def judge(self, candidate: Version, declared: Declared, *, all_gates: bool = False) -> Verdict:
        before, after = self._tools.analyse(self.baseline), self._tools.analyse(candidate)
        done = {g.gate: g for g in (self._tools.structure(before, after), self._tools.order(before, after, declared))}
        gates = tuple(done.get(name, GateResult(name, GateState.PASSED)) for name in GATES)
        return Verdict(decide(gates), gates, {"latency": Interval(1.4, 1.5, 1.6)})


class NoCompiler:
    def __init__(self, *_: object, **__: object) -> None:
        pass

    def build(self, _: Version) -> BuildFailed:
        return BuildFailed("there is no CUDA compiler on this machine", missing_tool=True)


def without_gpu(nvcc: str = "") -> Tools:
    made_up: dict[str, Any] = {"builder": NoCompiler, "gpu": lambda: "there is no GPU here"}
    return replace(real_tools(nvcc), **made_up)


@contextmanager
def machine() -> Iterator[None]:
    agrees = os.path.exists(os.environ["STITCHCUDA_AGREE"])
    hub = Agreeing if agrees else Hub
    scratch = Path(tempfile.mkdtemp(prefix="replayed-"))
    try:
        with (
            patch.object(gate, "real_tools", Replaying(scratch).tools),
            patch.object(validate, "real_tools", without_gpu),
            patch.object(validate, "Hub", hub),
            patch.object(machinery, "Hub", hub),
        ):
            if sys.argv[1] == "stitch" and not agrees:
                sys.argv.append("--no-run")
            yield
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    print(json.dumps({"step": 1, "of": 4, "message": "reading the program"}), file=sys.stderr, flush=True)
    while os.path.exists(os.environ["STITCHCUDA_HOLD"]):
        time.sleep(0.02)
    with machine():
        code = main()
    sys.exit(code)
