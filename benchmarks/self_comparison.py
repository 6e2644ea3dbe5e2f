"""Programs against themselves: none may come out as faster or as rejected.

    python benchmarks/self_comparison.py --json OUT --times 10 PROGRAM ...

Each PROGRAM is a folder or a source file, `PROGRAM=ARGUMENTS` runs it with arguments. It is built and observed once and
judged as its own candidate `--times` times. Old defects of a program (a report of the sanitizer, an unchecked failure) are
listed as findings.
"""

from __future__ import annotations

import argparse
import dataclasses
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
    path, _, words = program.partition("=")
    version = Version(Path(path))
    project = find_project(version.root)
    if words:
        command = f"./{project.run.command or 'main'} {words}"
        project = dataclasses.replace(project, run=dataclasses.replace(project.run, command=command))
    rows = []
    end = time.monotonic() + left
    with Hub(version, project, Contract(), real_tools(), options=HubOptions(runs=runs, sanitizer=sanitizer)) as hub:
        for k in range(times):
            begun = time.monotonic()
            if begun > end:
                break
            # A comment more: the candidate is built and run as any other.
            text = next(p for p in sorted(version.folder.glob("*.cu")))
            changed = version.with_texts({text.name: text.read_bytes() + f"\n// {k}\n".encode()})
            verdict = verdict_to_json(hub.judge(changed, BY_HAND))
            gates = {g["gate"]: g["state"] for g in verdict["gates"]}
            row = {
                "program": path,
                "arguments": words,
                "state": verdict["state"],
                "gates": gates,
                "reasons": {g["gate"]: g["reason"] for g in verdict["gates"] if g["reason"]},
                "findings": [f["what"] for g in verdict["gates"] for f in g["findings"]][:10],
                "speedup": verdict["speedup"],
                "seconds": round(time.monotonic() - begun, 1),
            }
            print(f"{Path(path).name:<22} {row['state']:<9} {gates} {row['seconds']} s {row['reasons']}", flush=True)
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
    bad = [r for r in rows if r["state"] != VerdictState.UNPROVEN.value]
    print(f"{len(rows)} comparisons, {len(bad)} accepted or rejected")
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
