"""Builds, checks and measures the two versions of the vision transformer example.

    python benchmarks/vit/measure.py --json benchmarks/results/vit_h200.json

Both programs must agree with the CPU reference and print identical results per image; then
they run several times in turn. Times per image are those that the programs print; how busy
the GPU was, and how many operations and runtime calls there were, comes from separate runs
with the recorder in gpu_busy.cpp.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAIVE = ROOT / "examples" / "vit"
EXPERT = ROOT / "examples" / "vit_expert"
SHARED = ["kernels.cu", "options.cpp", "images.cpp", "host_weights.cpp", "reference.cpp"]
SANITIZER_TOOLS = ["memcheck", "racecheck", "initcheck"]


def run(command, **options):
    result = subprocess.run([str(part) for part in command], check=False, text=True, capture_output=True, **options)
    if result.returncode != 0:
        sys.exit(f"failed ({result.returncode}): {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def first_line(command):
    try:
        return subprocess.run(command, check=False, text=True, capture_output=True).stdout.split("\n")[0].strip()
    except OSError:
        return ""


def toolkit_of(nvcc):
    """The toolkit's folder, as nvcc itself sees it."""
    listing = subprocess.run(
        [nvcc, "--dryrun", "-c", "-x", "cu", os.devnull], check=False, text=True, capture_output=True
    ).stderr
    match = re.search(r"_HERE_=(.+)", listing)
    return (Path(match.group(1)) if match else Path(nvcc).resolve().parent).resolve().parent


def find_cupti(toolkit):
    """Folders of cupti.h and of libcupti.so."""
    bases = [toolkit / "extras" / "CUPTI", toolkit / "targets" / "x86_64-linux", toolkit]
    includes = [base / "include" for base in bases]
    libraries = [base / folder for base in bases for folder in ("lib64", "lib")]
    include = next((path for path in includes if (path / "cupti.h").exists()), None)
    library = next((path for path in libraries if (path / "libcupti.so").exists()), None)
    if include is None or library is None:
        sys.exit(f"no CUPTI in {toolkit}")
    return include, library


def build(nvcc, arch, folder):
    """The two programs and the recorder."""
    flags = [nvcc, "-std=c++17", "-O3", f"-arch={arch}", "-Xcompiler", "-Wall"]
    naive = folder / "vit"
    expert = folder / "vit_expert"
    recorder = folder / "libgpu_busy.so"
    run(flags + ["-o", naive] + sorted(NAIVE.glob("*.cu")) + sorted(NAIVE.glob("*.cpp")))
    run(flags + [f"-I{NAIVE}", "-o", expert] + sorted(EXPERT.glob("*.cu")) + [NAIVE / name for name in SHARED])
    toolkit = toolkit_of(nvcc)
    include, library = find_cupti(toolkit)
    run(
        [
            "g++",
            "-std=c++17",
            "-O2",
            "-Wall",
            "-shared",
            "-fPIC",
            f"-I{include}",
            f"-I{toolkit / 'include'}",
            ROOT / "benchmarks" / "vit" / "gpu_busy.cpp",
            "-o",
            recorder,
            f"-L{library}",
            "-lcupti",
            f"-Wl,-rpath,{library}",
        ]
    )
    return naive, expert, recorder


def result_lines(output):
    return [line for line in output.splitlines() if " class " in line]


def printed_time(output):
    return float(re.search(r"elapsed ([0-9.]+) ms per image", output).group(1))


def record(program, images, recorder, calls=False):
    """One run under the recorder."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "busy.json"
        environment = dict(os.environ, CUDA_INJECTION64_PATH=str(recorder), GPU_BUSY_JSON=str(path))
        if calls:
            environment["GPU_BUSY_CALLS"] = "1"
        output = run([program, images], env=environment)
        if not path.exists():
            sys.exit("the recorder wrote nothing")
        data = json.loads(path.read_text())
    data["printed_ms_per_image"] = printed_time(output)
    return data


def summary(values):
    return {
        "median": round(statistics.median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
        "values": [round(value, 4) for value in values],
    }


def per_image(short, long, short_count, long_count):
    """What one more image costs: the difference of two runs, start-up cancelled."""

    def slope(name, key, field):
        before = short[name].get(key, {}).get(field, 0)
        return (long[name][key][field] - before) / (long_count - short_count)

    return {
        "kernels": {
            key: {"count": slope("kernels", key, "count"), "ms": round(slope("kernels", key, "ms"), 5)}
            for key in long["kernels"]
        },
        "copies": {
            key: {"count": slope("copies", key, "count"), "bytes": slope("copies", key, "bytes")}
            for key in long["copies"]
        },
        "runtime_calls": {
            key: {"count": slope("calls", key, "count"), "host_ms": round(slope("calls", key, "ms"), 5)}
            for key in long["calls"]
            if slope("calls", key, "count") > 0
        },
    }


def measure_busy(program, images, count, recorder, repeat):
    runs = [record(program, images, recorder) for _ in range(repeat)]
    span = statistics.median(data["span_ms"] for data in runs)
    busy = statistics.median(data["busy_ms"] for data in runs)
    return {
        "span_ms": summary([data["span_ms"] for data in runs]),
        "busy_ms": summary([data["busy_ms"] for data in runs]),
        "kernel_ms": round(statistics.median(data["kernel_ms"] for data in runs), 4),
        "copy_ms": round(statistics.median(data["copy_ms"] for data in runs), 4),
        "busy_share_of_span": round(busy / span, 4),
        "busy_ms_per_image": round(busy / count, 4),
        "printed_ms_per_image": summary([data["printed_ms_per_image"] for data in runs]),
        "operations": runs[0]["operations"],
    }


def sanitize(programs, images, count):
    """Results of the sanitizer tools on each program, one after the other, as they come."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        sys.exit("no compute-sanitizer on the PATH")
    for tool in SANITIZER_TOOLS:
        for name, program in programs.items():
            started = time.monotonic()
            done = subprocess.run(
                [sanitizer, "--tool", tool, "--error-exitcode", "9", program, images],
                check=False,
                text=True,
                capture_output=True,
            )
            lines = [line.strip("= ") for line in (done.stdout + done.stderr).splitlines() if "SUMMARY" in line]
            yield (
                f"{name} {tool}",
                {
                    "exit": done.returncode,
                    "summary": lines[-1] if lines else "",
                    "images": count,
                    "seconds": round(time.monotonic() - started, 1),
                },
            )


def machine(nvcc):
    gpu = first_line(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    name, _, driver = gpu.partition(", ")
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        match = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())
        model = match.group(1) if match else ""
    version = re.search(r"V[0-9.]+", run([nvcc, "--version"]))
    return {
        "gpu": name,
        "driver": driver,
        "nvcc": version.group(0) if version else "",
        "cpu": model or platform.machine(),
        "cpu_cores": os.cpu_count(),
    }


def write(path, report):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True, type=Path, help="where to write the results")
    parser.add_argument("--images", type=int, default=64, help="images per run")
    parser.add_argument("--repeat", type=int, default=7, help="timed runs of each program")
    parser.add_argument("--arch", default="sm_90", help="GPU architecture for nvcc")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    parser.add_argument(
        "--sanitize", type=int, default=0, metavar="N", help="also run compute-sanitizer on N images (takes minutes)"
    )
    options = parser.parse_args()
    if options.images < 8:
        parser.error("at least 8 images are needed")
    few = options.images // 8

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        naive, expert, recorder = build(options.nvcc, options.arch, folder)
        programs = {"naive": naive, "expert": expert}
        sets = {}
        for count in (few, options.images):
            sets[count] = folder / f"images_{count}"
            run([naive, "--make-images", sets[count], "--count", count])
        images = sets[options.images]

        checks = {}
        outputs = {}
        for name, program in programs.items():
            outputs[name] = run([program, images, "--check"])
            checks[name] = [line for line in outputs[name].splitlines() if line.startswith("check ")]
            print(f"{name}: {checks[name]}", flush=True)
        expected = result_lines(outputs["naive"])
        if len(expected) != options.images or result_lines(outputs["expert"]) != expected:
            sys.exit("the programs print different results")

        times = {name: [] for name in programs}
        for _ in range(options.repeat):
            for name, program in programs.items():
                output = run([program, images])
                if result_lines(output) != expected:
                    sys.exit(f"{name}: results differ from run to run")
                times[name].append(printed_time(output))

        report = {
            "machine": machine(options.nvcc),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": "python benchmarks/vit/measure.py " + " ".join(sys.argv[1:]),
            "images": options.images,
            "checks": checks,
            "identical_results": True,
        }
        for name, program in programs.items():
            counted = [record(program, sets[count], recorder, calls=True) for count in (few, options.images)]
            report[name] = {
                "ms_per_image": summary(times[name]),
                "recorded": measure_busy(program, images, options.images, recorder, 3),
                "per_image": per_image(*counted, few, options.images),
            }
        ratio = report["naive"]["ms_per_image"]["median"] / report["expert"]["ms_per_image"]["median"]
        report["naive_to_expert_ms_per_image"] = round(ratio, 3)
        report["naive_to_expert_span"] = round(
            report["naive"]["recorded"]["span_ms"]["median"] / report["expert"]["recorded"]["span_ms"]["median"], 3
        )
        write(options.json, report)
        for name in programs:
            print(
                f"{name}: {report[name]['ms_per_image']['median']} ms per image, "
                f"busy {report[name]['recorded']['busy_ms_per_image']} ms per image, "
                f"span {report[name]['recorded']['span_ms']['median']} ms"
            )
        print(f"naive / expert: {ratio:.2f}", flush=True)

        if options.sanitize:
            count = options.sanitize
            run([naive, "--make-images", folder / "sanitize", "--count", count])
            report["sanitizer"] = {}
            for case, result in sanitize(programs, folder / "sanitize", count):
                print(f"{case}: {result}", flush=True)
                report["sanitizer"][case] = result
                write(options.json, report)
            if any(result["exit"] != 0 for result in report["sanitizer"].values()):
                sys.exit("the sanitizer found errors")


if __name__ == "__main__":
    main()
