"""Programs against themselves: none may come out as faster or as rejected.

    python benchmarks/self_comparison.py --json OUT --times 10 PROGRAM ...

Each PROGRAM is a folder or a source file. It is built and observed once, and judged `--times` times against a candidate that differs
by an unused constant (its order is then not proved; what counts is that the measurements claim no gain). Old defects of a program (a report of the sanitizer, an unchecked failure) are
listed as findings.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.proof.model import BY_HAND
from stitchcuda.gpu_validate.hub import Hub, HubOptions
from stitchcuda.gpu_validate.project_file import find_project
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.toolchain import ask, find_nvcc
from stitchcuda.gpu_validate.verdict import VerdictState
from stitchcuda.gpu_validate.verdict_json import verdict_to_json
from stitchcuda.gpu_validate.version import Version


def judged(program: str, times: int, runs: int, sanitizer: tuple[str, ...], left: float) -> list[dict[str, Any]]:
    version = Version(Path(program))
    project = find_project(version.root)
    rows = []
    end = time.monotonic() + left
    with Hub(version, project, Contract(), real_tools(), options=HubOptions(runs=runs, sanitizer=sanitizer)) as hub:
        for k in range(times):
            begun = time.monotonic()
            if begun > end:
                break
            # Another program file that does the same: one that is equal byte for byte would not be timed at all.
            text = next(p for p in sorted(version.folder.glob("*.cu")))
            marker = f'\nextern "C" __attribute__((used)) const int self_comparison_{k} = {k};\n'
            changed = version.with_texts({text.name: text.read_bytes() + marker.encode()})
            verdict = verdict_to_json(hub.judge(changed, BY_HAND))
            gates = {g["gate"]: g["state"] for g in verdict["gates"]}
            row = {
                "program": Path(program).name,
                "state": verdict["state"],
                "gates": gates,
                "reasons": {g["gate"]: g["reason"] for g in verdict["gates"] if g["reason"]},
                "findings": [f["what"] for g in verdict["gates"] for f in g["findings"]][:10],
                "shown": next(g["evidence"] for g in verdict["gates"] if g["gate"] == "G3"),
                "speedup": verdict["speedup"],
                "measured": verdict["measured"],
                "seconds": round(time.monotonic() - begun, 1),
            }
            print(f"{Path(program).name:<22} {row['state']:<9} {gates} {row['seconds']} s {row['reasons']}", flush=True)
            rows.append(row)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--sanitizer", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=1e9, help="no new comparison after that long")
    parser.add_argument("--json", metavar="OUT")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    rows = []
    for program in arguments.programs:
        left = end - time.monotonic()
        if left > 0:
            rows += judged(program, arguments.times, arguments.runs, tuple(arguments.sanitizer), left)
    bad = [r for r in rows if r["state"] != VerdictState.UNPROVEN.value or r["gates"]["G6"] == "passed"]
    print(f"{len(rows)} comparisons, {len(bad)} rejected or faster")
    if arguments.json:
        nvcc, _ = find_nvcc()
        value = {
            "command": " ".join(sys.argv),
            "date": datetime.date.today().isoformat(),
            "gpu": ask(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).text.strip(),
            "nvcc": nvcc.version if nvcc else "",
            "python": platform.python_version(),
            "comparisons": rows,
        }
        Path(arguments.json).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
