"""Measures what the tracer costs a program, in both modes.

    python benchmarks/tracer.py --json benchmarks/results/tracer_h200.json

The cost of a call comes from a program that launches an empty kernel many times; what a whole program pays from the vision
transformer example. Runs without the tracer and in each mode take turns, since machines drift. Times are those that the
programs print.
"""

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from stitchcuda.gpu_validate.processes import Limits
from stitchcuda.gpu_validate.toolchain import find_nvcc
from stitchcuda.gpu_validate.trace.library import tracer_library
from stitchcuda.gpu_validate.trace.measures import cuda_span, gpu_busy, reading
from stitchcuda.gpu_validate.trace.session import TraceRequest, run_traced

ROOT = Path(__file__).resolve().parents[1]
REQUESTS = {
    "timing": TraceRequest("timing"),
    "timing with operations": TraceRequest("timing", operations=True),
    "full": TraceRequest("full"),
}


def build(nvcc, folder):
    flags = [nvcc.path, "-std=c++17", "-O3", "-g", "-arch=native"]
    vit = ROOT / "examples" / "vit"
    many = ROOT / "tests" / "fixtures" / "traces" / "programs" / "many.cu"
    subprocess.run([*flags, "-o", folder / "vit", *sorted(vit.glob("*.cu")), *sorted(vit.glob("*.cpp"))], check=True)
    subprocess.run([*flags, "-o", folder / "many", many], check=True)


def traced(command, folder, request):
    ended, trace = run_traced(
        [str(part) for part in command],
        cwd=folder,
        env=os.environ,
        limits=Limits(seconds=300),
        request=request,
        library=tracer_library(),
    )
    if not ended.ok or trace is None or trace.dropped or trace.problems:
        sys.exit(f"{command}: {ended.describe()} {trace and trace.problems}")
    return ended.stdout.decode(), trace


def plain(command, folder):
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def summary(values):
    return {"median": round(statistics.median(values), 4), "min": round(min(values), 4), "max": round(max(values), 4)}


def launches(folder, count, repeat):
    """Nanoseconds a launch."""
    command = [folder / "many", str(count)]
    times = {"without": [], **{name: [] for name in REQUESTS}}
    for _ in range(repeat):
        times["without"].append(float(plain(command, folder)))
        for name, request in REQUESTS.items():
            times[name].append(float(traced(command, folder, request)[0]))
    base = statistics.median(times["without"])
    added = {name: round(statistics.median(times[name]) - base, 1) for name in REQUESTS}
    return {"launches": count, "ns_a_launch": {name: summary(v) for name, v in times.items()}, "added_ns": added}


def example(folder, images, repeat):
    """Milliseconds an image."""
    plain([folder / "vit", "--make-images", folder / "images", "--count", str(images)], folder)
    command = [folder / "vit", folder / "images"]
    times = {"without": [], **{name: [] for name in REQUESTS}}
    figures = {name: [] for name in REQUESTS}
    for _ in range(repeat):
        times["without"].append(printed(plain(command, folder)))
        for name, request in REQUESTS.items():
            text, trace = traced(command, folder, request)
            times[name].append(printed(text))
            figures[name].append((len(trace.calls), cuda_span(trace), gpu_busy(trace), reading(trace)))
    result = {"images": images, "ms_an_image": {name: summary(values) for name, values in times.items()}}
    for name, rows in figures.items():
        result[name] = {
            "calls": rows[0][0],
            "span_ms": summary([span / 1e6 for _, span, _, _ in rows]),
            "busy_ms": summary([busy / 1e6 for _, _, busy, _ in rows]) if rows[0][2] is not None else None,
            "reading_copies_ms": summary([read / 1e6 for _, _, _, read in rows]),
        }
    return result


def printed(text):
    return float(re.search(r"elapsed ([0-9.]+) ms per image", text).group(1))


def machine(nvcc):
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, _, driver = subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip().partition(", ")
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    cpu = model.group(1) if model else platform.machine()
    return {"gpu": name, "driver": driver, "nvcc": nvcc.version, "cpu": cpu, "cpu_cores": os.cpu_count()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True, type=Path, help="where to write the results")
    parser.add_argument("--launches", type=int, default=1_000_000)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each kind")
    options = parser.parse_args()
    nvcc, problem = find_nvcc()
    if nvcc is None:
        sys.exit(f"no nvcc: {problem}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(nvcc, folder)
        report = {
            "machine": machine(nvcc),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": "python benchmarks/tracer.py " + " ".join(sys.argv[1:]),
            "many_launches": launches(folder, options.launches, options.repeat),
            "vit": example(folder, options.images, options.repeat),
        }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
