"""The command line on a machine whose GPU is a record: `gate` of spin.cu does not build it, and its runs are traces from the
fixtures, chosen by the ROUNDS in its text. All else is real."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from stitchcuda.gpu_validate.building.model import Built
from stitchcuda.gpu_validate.processes import Ended
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.tools import Tools
from stitchcuda.gpu_validate.trace import store
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.verdict import GateResult, GateState
from stitchcuda.gpu_validate.version import Version
from stitchcuda.server.cli import gate
from stitchcuda.server.cli.dispatch import main

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"
RECORDS = [json.loads((TRACES / name).read_bytes()) for name in ("spin.json", "spin_slower.json")]


class Replaying:
    """Builds by copying, and runs by reading the next recorded trace of that text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = 0

    def build(self, version: Version) -> Built:
        (self.folder / "spin.cu").write_bytes(version.root.read_bytes())
        return Built("b", self.folder, ("spin",), 0.0, place=self.folder)

    @contextmanager
    def placed(self, built: Built) -> Iterator[Path]:
        yield self.folder

    def run_traced(self, *_: Any, **__: Any) -> tuple[Ended, Trace]:
        rounds = re.search(r"ROUNDS = (\d+);", (self.folder / "spin.cu").read_text(encoding="utf-8"))
        (record,) = [r for r in RECORDS if rounds is not None and r["rounds"] == int(rounds[1])]
        trace = store.from_json(record["traces"][self.runs])
        self.runs += 1
        return Ended(code=0), trace

    def tools(self, nvcc: str = "") -> Tools:
        checked = GateResult("G4", GateState.PASSED, "", {"tools": {"memcheck": {}}})
        return replace(
            real_tools(nvcc),
            gpu=lambda: "",
            library=lambda: Path("recorded"),
            builder=lambda *_, **__: self,
            run_traced=self.run_traced,
            memory=lambda *_, **__: checked,
        )


if __name__ == "__main__":
    scratch = Path(tempfile.mkdtemp(prefix="replayed-"))
    try:
        with patch.object(gate, "real_tools", Replaying(scratch).tools):
            code = main()
    finally:
        shutil.rmtree(scratch)
    sys.exit(code)
