"""What the analysis costs, beside parsing the same text with tree-sitter in the same run.

    python -m benchmarks.analysis [--json OUT] [--jobs N] [--trees-only] TREE...

size     one file of growing length, made of renamed copies of a program with kernels, streams, events and copies: seconds, and how
         they grow (the exponent over the range; 1 is linear)
edits    a 3,000-line file: one function changes, what the next analysis takes (p50, p99)
files    programs of a growing number of files, one of which calls the others
trees    each program of the trees in one process: lines a second, how the cost of programs is distributed (of programs below
         `LEAST_LINES` as if they had so many), the slowest programs, the memory.
         As in `check`, neighbours come together, collections are rare, and a process keeps what files were lowered to for later programs
shared   what `check` does with the trees in one process and in N, and the most that this machine allows: N processes that
         have nothing to do with each other, beside one of them alone (memory and caches are shared)
CPU seconds, except for `shared`. Ratios to the parse travel between machines; seconds do not.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import resource
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stitchcuda.analysis.index import Index
from stitchcuda.analysis.program.ir import Problem
from stitchcuda.analysis.syntax.parse import parse_tree
from stitchcuda.server.cli import check, inputs, programs
from stitchcuda.server.workers import map_in_processes

from benchmarks.peer import header, load, percentile

UNIT = """
__global__ void scale_@(float* out, const float* in, int n, float factor) {
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    if (i < n) out[i] = factor * tile[255 - threadIdx.x];
}

static void stage_@(float* d_out, float* d_in, float* pinned, int n, cudaStream_t copy, cudaStream_t work, cudaEvent_t ready) {
    cudaMemcpyAsync(d_in, pinned, n * sizeof(float), cudaMemcpyHostToDevice, copy);
    cudaEventRecord(ready, copy);
    cudaStreamWaitEvent(work, ready, 0);
    for (int round = 0; round < 4; ++round) {
        scale_@<<<(n + 255) / 256, 256, 0, work>>>(d_out, d_in, n, 0.5f);
        scale_@<<<(n + 255) / 256, 256, 0, work>>>(d_in, d_out, n, 2.0f);
    }
}

void run_@(int n) {
    float *d_in, *d_out, *pinned;
    cudaStream_t copy, work;
    cudaEvent_t ready;
    cudaMalloc(&d_in, n * sizeof(float));
    cudaMalloc(&d_out, n * sizeof(float));
    cudaMallocHost(&pinned, n * sizeof(float));
    cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking);
    cudaEventCreate(&ready);
    for (int i = 0; i < n; ++i) pinned[i] = i;
    stage_@(d_out, d_in, pinned, n, copy, work, ready);
    cudaMemcpyAsync(pinned, d_out, n * sizeof(float), cudaMemcpyDeviceToHost, work);
    cudaStreamSynchronize(work);
    if (pinned[0] < 0) cudaDeviceSynchronize();
    cudaFree(d_in);
    cudaFree(d_out);
    cudaFreeHost(pinned);
    cudaStreamDestroy(copy);
    cudaStreamDestroy(work);
    cudaEventDestroy(ready);
}
"""
LENGTHS = (500, 1000, 2000, 4000, 8000, 16000)
COUNTS = (4, 16, 64, 256)
EDITS = 60
LEAST_LINES = 100
SLOWEST = 25
APART = 150  # programs for the most that the machine allows


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def text_of(lines: int) -> bytes:
    each = UNIT.count("\n")
    return "".join(UNIT.replace("@", str(k)) for k in range(max(1, lines // each))).encode()


def once(files: dict[str, bytes]) -> float:
    def work() -> None:
        index = Index(strict=True)
        for path, text in files.items():
            index.put(path, text)
        index.analyse()

    return cpu(work)


def parsing(files: dict[str, bytes]) -> float:
    return cpu(lambda: [parse_tree(text) for text in files.values()])


def exponent(rows: Sequence[dict[str, Any]], by: str) -> float:
    """The slope of log(seconds) over log(size)."""
    xs, ys = [math.log(r[by]) for r in rows], [math.log(max(r["seconds"], 1e-6)) for r in rows]
    return statistics.linear_regression(xs, ys).slope


def sizes() -> list[dict[str, Any]]:
    rows = []
    for lines in LENGTHS:
        files = {"a.cu": text_of(lines)}
        number = files["a.cu"].count(b"\n")
        parse, whole = parsing(files), once(files)
        rows.append({"lines": number, "seconds": whole, "parse": parse, "ratio": whole / parse})
    return rows


def many_files() -> list[dict[str, Any]]:
    rows = []
    for count in COUNTS:
        files = {f"f{k}.cu": UNIT.replace("@", str(k)).encode() for k in range(count)}
        calls = "".join(f"void run_{k}(int n);\n" for k in range(count))
        body = "".join(f"    run_{k}(1024);\n" for k in range(count))
        files["main.cu"] = f"{calls}int main() {{\n{body}}}\n".encode()
        parse, whole = parsing(files), once(files)
        rows.append({"files": len(files), "seconds": whole, "parse": parse, "ratio": whole / parse})
    return rows


def edits() -> dict[str, Any]:
    text = text_of(3000)
    index = Index(strict=True)
    index.put("a.cu", text)
    first = cpu(index.analyse)
    units = text.count(b"void run_")
    took = []
    gc.disable()  # as the server does: it collects when nobody waits
    for k in range(EDITS):
        name = f"stage_{k % units}".encode()
        changed = text.replace(b"static void " + name + b"(", b"static void " + name + b"( ").replace(
            b"round < 4", b"round < %d" % (5 + k), 1
        )

        def work(now: bytes = changed) -> None:
            index.put("a.cu", now)
            index.analyse()

        took.append(cpu(work))
    gc.enable()
    took.sort()
    parse = statistics.median(parsing({"a.cu": text}) for _ in range(5))
    p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
    return {
        "lines": text.count(b"\n"),
        "first": first,
        "p50": p50,
        "p99": p99,
        "parse": parse,
        "p50_ratio": p50 / parse,
    }


def program(group: programs.Group) -> dict[str, Any]:
    files = group.texts()
    lines = sum(files[p].count(b"\n") for p in group.sources if p in files)
    index = Index()

    def work() -> None:
        for path, text in files.items():
            index.put(path, text)
        index.analyse()

    seconds, parse = cpu(work), parsing(files)
    return {
        "program": str(group),
        "lines": lines,
        "lines_with_headers": sum(text.count(b"\n") for text in files.values()),
        "seconds": round(seconds, 4),
        "seconds_per_1000_lines": round(1000 * seconds / max(lines, LEAST_LINES), 4),
        "parse": parse,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def of_programs(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    lines, seconds = sum(r["lines"] for r in rows), sum(r["seconds"] for r in rows)
    costs = [r["seconds_per_1000_lines"] for r in rows]
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    told = ("program", "lines", "lines_with_headers", "seconds", "seconds_per_1000_lines")
    return {
        "programs": len(rows),
        "lines": lines,
        "lines_with_headers": sum(r["lines_with_headers"] for r in rows),
        "cpu_seconds": round(seconds, 2),
        "lines_a_second": round(lines / max(seconds, 1e-9)),
        "ratio_to_parse": seconds / max(sum(r["parse"] for r in rows), 1e-9),
        "seconds_per_1000_lines": {name: percentile(costs, share) for name, share in shares.items()},
        "slowest": [
            {name: row[name] for name in told}
            for row in sorted(rows, key=lambda r: -float(r["seconds_per_1000_lines"]))[:SLOWEST]
        ],
    }


def trees(paths: Sequence[str]) -> dict[str, Any]:
    by_tree = {path: planned([path]) for path in paths}
    groups = [group for each in by_tree.values() for group in each]
    if not groups:
        return {"programs": 0}
    rows = done(program, groups, 1)
    own = iter(rows)
    return {
        "all": of_programs(rows),
        "each": {path: of_programs([next(own) for _ in of_it]) for path, of_it in by_tree.items() if of_it},
        "one_process_mb": max(r["memory_mb"] for r in rows),
    }


def planned(paths: Sequence[str]) -> tuple[programs.Group, ...]:
    return programs.plan(inputs.find(paths).files, paths).groups


def done(work: Callable[[Any], dict[str, Any]], items: Sequence[Any], jobs: int) -> list[dict[str, Any]]:
    """As `check` has it done with programs. Raises RuntimeError when a process fails."""
    rows = list(map_in_processes(work, items, jobs, cost=lambda item: getattr(item, "size", 0)))
    failed = [f"{row.path}: {row.what}" for row in rows if isinstance(row, Problem)]
    if failed:
        raise RuntimeError("\n".join(failed))
    return [row for row in rows if not isinstance(row, Problem)]


def checked(group: programs.Group) -> dict[str, Any]:
    """What `check` does, and what the process has used since it was started."""
    check.check_program(group)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "process": os.getpid(),
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "memory_mb": used.ru_maxrss // 1024,
    }


def shared_out(groups: Sequence[programs.Group], jobs: int) -> dict[str, Any]:
    start = time.monotonic()
    rows = done(checked, groups, jobs)
    wall = time.monotonic() - start
    last = {row["process"]: row for row in rows}
    most = {key: [max(r[key] for r in rows if r["process"] == p) for p in last] for key in ("cpu_seconds", "memory_mb")}
    return {
        "processes": jobs,
        "seconds": round(wall, 2),
        "cpu_seconds": [round(seconds, 2) for seconds in most["cpu_seconds"]],
        "memory_mb": most["memory_mb"],
    }


def checked_all(groups: Sequence[programs.Group]) -> dict[str, Any]:
    return [checked(group) for group in groups][-1]


def apart(groups: Sequence[programs.Group], processes: int) -> tuple[float, float]:
    """Seconds until so many processes have each checked all the programs, and CPU seconds of a process."""
    start = time.monotonic()
    rows = done(checked_all, [tuple(groups)] * processes, processes)
    return time.monotonic() - start, sum(row["cpu_seconds"] for row in rows) / processes


def fastest(rounds: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return min(seconds for seconds, _ in rounds), min(cpu for _, cpu in rounds)


def shared(paths: Sequence[str], jobs: int) -> dict[str, Any]:
    start = time.process_time()
    groups = planned(paths)
    plan = time.process_time() - start
    if not groups:
        return {"programs": 0}
    lines = sum(text.count(b"\n") for g in groups for p, text in g.texts().items() if p in g.sources)
    one, together = shared_out(groups, 1), shared_out(groups, jobs)
    some = groups[:: max(1, len(groups) // APART)]
    alone, beside = zip(*((apart(some, 1), apart(some, jobs)) for _ in range(2)), strict=True)
    ceiling, cpu_ceiling = (jobs * a / b for a, b in zip(fastest(alone), fastest(beside), strict=True))
    ratio = one["seconds"] / together["seconds"]
    cpu_ratio = max(one["cpu_seconds"]) / max(together["cpu_seconds"])
    return {
        "programs": len(groups),
        "lines": lines,
        "plan_cpu_seconds": round(plan, 2),
        "one": one | {"lines_a_second": round(lines / one["seconds"])},
        "together": together | {"lines_a_second": round(lines / together["seconds"])},
        "alone_seconds": [round(seconds, 2) for seconds, _ in alone],
        "beside_others_seconds": [round(seconds, 2) for seconds, _ in beside],
        "ratio": round(ratio, 2),
        "ceiling": round(ceiling, 2),
        "of_ceiling": round(ratio / ceiling, 2),
        # What it would be if each process had a core to itself.
        "by_cpu": {
            "ratio": round(cpu_ratio, 2),
            "ceiling": round(cpu_ceiling, 2),
            "of_ceiling": round(cpu_ratio / cpu_ceiling, 2),
        },
    }


def growth() -> dict[str, Any]:
    value: dict[str, Any] = {"size": sizes()}
    value["size_exponent"] = exponent(value["size"], "lines")
    for row in value["size"]:
        print(f"{row['lines']:>6} lines {row['seconds']:.2f} s, {row['ratio']:.1f} x the parse")
    print(f"grows with the length to the power of {value['size_exponent']:.2f}")
    value["files"] = many_files()
    value["files_exponent"] = exponent(value["files"], "files")
    for row in value["files"]:
        print(f"{row['files']:>6} files {row['seconds']:.2f} s, {row['ratio']:.1f} x the parse")
    print(f"grows with the number of files to the power of {value['files_exponent']:.2f}")
    value["edits"] = edits()
    print("edits", {k: round(v, 4) for k, v in value["edits"].items()})
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trees-only", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    before = load()
    once({"warm.cu": text_of(100)})
    value: dict[str, Any] = {} if arguments.trees_only else growth()
    if arguments.trees:
        value["trees"] = trees(arguments.trees)
        print("trees", json.dumps(value["trees"], indent=1))
        value["shared"] = shared(arguments.trees, arguments.jobs)
        print("shared", json.dumps(value["shared"], indent=1))
    if arguments.json:
        command = shlex.join(["python", "-m", "benchmarks.analysis", *sys.argv[1:]])
        arguments.json.write_text(json.dumps(header(command, before) | value, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
