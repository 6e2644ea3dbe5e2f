"""Records what the on-save tests replay where there is no GPU: traces of tests/gpu/programs/spin.cu, as it is and a fifth slower.

    python scripts/record_spin.py FOLDER

writes spin.json and spin_slower.json, each with its ROUNDS and the runs of one validation, warm-up first. The editor sees these
through the same code as on a GPU. Only calls that issue device work are kept: nothing else is read of them.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from stitchcuda.analysis.contract.project import Project
from stitchcuda.gpu_validate import watch
from stitchcuda.gpu_validate.processes import Ended
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.trace import store
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.version import Version

ROUNDS = re.compile(r"(?<=const int ROUNDS = )\d+")
PROGRAM = Path(__file__).parents[1] / "tests" / "gpu" / "programs" / "spin.cu"


def recorded(rounds: int, folder: Path) -> list[Trace]:
    """The traces of one validation of the program with that many rounds. Raises CannotWatch."""
    program = folder / "spin.cu"
    program.write_text(ROUNDS.sub(str(rounds), PROGRAM.read_text(encoding="utf-8")), encoding="utf-8")
    tools = real_tools()
    traces: list[Trace] = []

    def run_traced(*arguments: Any, **options: Any) -> tuple[Ended, Trace | None]:
        ended, trace = tools.run_traced(*arguments, **options)
        if trace is not None:
            traces.append(trace)
        return ended, trace

    seen = watch.watch(Version(program), Project(), replace(tools, run_traced=run_traced), sanitize=False)
    for site in seen.sites:
        print(f"ROUNDS {rounds}: line {site.line}: {site.key.operation}: {site.medians} ns, {site.count} a run")
    return traces


def reduced(trace: Trace) -> Trace:
    """The calls that issue device work, without addresses and with the program's own sites named by its file name, and that
    work."""
    issued = {op.correlation for op in trace.ops}
    calls = tuple(
        replace(
            call,
            index=index,
            thread=0,
            source=0,
            target=0,
            pointers=(),
            sites=tuple(replace(s, path="spin.cu") for s in call.sites if Path(s.path).name == "spin.cu"),
        )
        for index, call in enumerate(c for c in trace.calls if c.correlation in issued)
    )
    return replace(trace, calls=calls, reads=(), problems=())


def main(words: list[str]) -> int:
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    target = Path(words[0])
    target.mkdir(parents=True, exist_ok=True)
    found = ROUNDS.search(PROGRAM.read_text(encoding="utf-8"))
    assert found is not None
    for name, rounds in (("spin", int(found[0])), ("spin_slower", int(found[0]) * 6 // 5)):
        with tempfile.TemporaryDirectory() as folder:
            try:
                traces = recorded(rounds, Path(folder))
            except watch.CannotWatch as error:
                print(f"not recorded: {error}", file=sys.stderr)
                return 1
        value = {"schema": 1, "rounds": rounds, "traces": [store.to_json(reduced(trace)) for trace in traces]}
        file = target / f"{name}.json"
        file.write_text(json.dumps(value, separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"{file}: {len(traces)} traces, {file.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
