"""Hours of editing in minutes: random edits over CUDA files with saves, closes, renames and changed settings, against one server.

    python -m benchmarks.soak [--edits 10000] [--files 30] [--seed 1] [--out FILE]

The files are generated programs (folders whose files call each other) and fixtures of this repository. The client keeps its own
texts and counts lines by itself. Every `CHECK_EVERY` edits the server says what it takes for each text (`stitchcuda.status`): a
difference is a failure. At the end the findings shown last and the code lenses are compared with those of a fresh server that
gets the final texts, and the resident memory of the server and of its analysis process with what it was after the first
thousand edits. Exits with 1 when something of that fails. Prints a summary, writes JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchmarks.peer import Peer, header, load, percentile, resident

ROOT = Path(__file__).parents[1]
SERVER = (sys.executable, "-m", "stitchcuda.server.cli", "lsp", "--stdio")
CHECK_EVERY = 100
REVERT_AFTER = 40  # edits of one file, after which it is undone: code in which one types, not noise
GROWTH = 0.10  # the most that memory may grow after the first thousand edits
QUIET_SECONDS = 3.0  # the analysis process tidies up when nothing was asked for 2 s
IDLE_SECONDS = 120.0
CAPABILITIES = {
    "textDocument": {"publishDiagnostics": {"versionSupport": True, "relatedInformation": True}},
    "workspace": {"configuration": True, "didChangeWatchedFiles": {"dynamicRegistration": True}},
    "window": {"workDoneProgress": True},
}
SETTINGS: Mapping[str, Any] = {"diagnosticsDelay": 20}
OTHER_SETTINGS: Sequence[Mapping[str, Any]] = (
    {"diagnosticsDelay": 0, "confidence": "possible"},
    {"diagnosticsDelay": 20, "ignore": ["stream-race-raw"]},
    {"diagnosticsDelay": 20, "select": ["all"]},
    {"diagnosticsDelay": 20, "wholeProgram": False},
)

# ------------------------------------------------------------------------------------------------------------------- files

STAGE = """\
#include <cuda_runtime.h>
#include "pipeline.h"

// Stage {n}: filters a tile of the signal on its own stream.
static __global__ void filter_{n}(const float *in, float *out, int count) {{
  __shared__ float tile[256 + 2];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x + 1] = i < count ? in[i] : 0.0f;
  __syncthreads();
  if (i < count) {{
    out[i] = 0.25f * tile[threadIdx.x] + 0.5f * tile[threadIdx.x + 1] + 0.25f * tile[threadIdx.x + 2];
  }}
}}

struct Stage{n} {{
  cudaStream_t stream;
  cudaEvent_t done;
  float *scratch;
}};

void open_stage_{n}(Stage{n} *stage, int count) {{
  cudaStreamCreateWithFlags(&stage->stream, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&stage->done, cudaEventDisableTiming);
  cudaMalloc(&stage->scratch, count * sizeof(float));
}}

void run_stage_{n}(const float *in, float *out, int count) {{
  Stage{n} stage;
  open_stage_{n}(&stage, count);
  filter_{n}<<<(count + 255) / 256, 256, 0, stage.stream>>>(in, stage.scratch, count);
  cudaEventRecord(stage.done, stage.stream);
  cudaStream_t copy;
  cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking);
  {wait}cudaStreamWaitEvent(copy, stage.done, 0);
  cudaMemcpyAsync(out, stage.scratch, count * sizeof(float), cudaMemcpyDeviceToDevice, copy);
  cudaStreamSynchronize(copy);
  cudaFree(stage.scratch);
  cudaEventDestroy(stage.done);
  cudaStreamDestroy(copy);
  cudaStreamDestroy(stage.stream);
}}
"""
PIPELINE = """\
#include <cstdio>
#include <cuda_runtime.h>
#include "pipeline.h"

int main() {{
  const int count = 1 << 20;
  float *host = nullptr, *a = nullptr, *b = nullptr;
  cudaMallocHost(&host, count * sizeof(float));
  cudaMalloc(&a, count * sizeof(float));
  cudaMalloc(&b, count * sizeof(float));
  cudaMemcpyAsync(a, host, count * sizeof(float), cudaMemcpyHostToDevice);
  cudaDeviceSynchronize();
{calls}
  cudaMemcpy(host, a, count * sizeof(float), cudaMemcpyDeviceToHost);
  std::printf("%f\\n", host[0]);
  cudaFree(b);
  cudaFree(a);
  cudaFreeHost(host);
  return 0;
}}
"""
STATEMENTS = (
    "cudaDeviceSynchronize();",
    "cudaStreamSynchronize(stage.stream);",
    "cudaStreamWaitEvent(copy, stage.done, 0);",
    "cudaMemcpyAsync(out, in, count * sizeof(float), cudaMemcpyDeviceToDevice, copy);",
    "cudaEventRecord(stage.done, copy);",
    "if (count > 4096) {",
    "}",
    "float *more = nullptr; cudaMalloc(&more, 4096);",
    "for (int i = 0; i < 8; ++i) cudaStreamSynchronize(copy);",
    "#define TILE 128",
    "__syncthreads();",
    "/* half a comment",
)
ODD = ("é", "核", "😀", "\f", "\u2028", "\r\n", "\r", "\t", "// 🐢 \u2029 note\n", "\x85", "\v")


def program(folder: Path, stages: int) -> list[Path]:
    """Writes a program of `stages` files that are called from a further one."""
    folder.mkdir(parents=True)
    names = [f"run_stage_{n}" for n in range(stages)]
    prototypes = "".join(f"void {name}(const float *in, float *out, int count);\n" for name in names)
    (folder / "pipeline.h").write_text("#pragma once\n" + prototypes, encoding="utf-8")
    calls = "\n".join(f"  {name}({'a, b' if n % 2 == 0 else 'b, a'}, count);" for n, name in enumerate(names))
    files = {
        "main.cu": PIPELINE.format(calls=calls),
        **{f"stage{n}.cu": STAGE.format(n=n, wait="// " if n % 3 == 0 else "") for n in range(stages)},
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def workspace(folder: Path, count: int, rng: random.Random) -> list[Path]:
    """`count` files: generated programs for two thirds, fixtures of this repository for the rest, each in a folder of its own."""
    files: list[Path] = []
    while len(files) < count * 2 // 3:
        files += program(folder / f"program{len(files)}", min(rng.choice((1, 3, 6)), count * 2 // 3 - len(files)))
    fixtures = sorted((ROOT / "tests" / "fixtures" / "rules").rglob("*.cu"))
    for number, fixture in enumerate(rng.sample(fixtures, max(0, count - len(files)))):
        place = folder / f"alone{number}"
        place.mkdir()
        target = place / fixture.name
        target.write_bytes(fixture.read_bytes())
        files.append(target)
    return files[:count]


# ------------------------------------------------------------------------------------------------------------------ client

_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass
class File:
    """A document as the client has it."""

    path: Path
    text: str
    original: str
    version: int = 1
    edits: int = 0

    @property
    def uri(self) -> str:
        return self.path.as_uri()

    @property
    def digest(self) -> str:
        return sha256(self.text.encode()).hexdigest()

    def line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def position(self, offset: int, starts: Sequence[int]) -> dict[str, int]:
        """In UTF-16 units."""
        low, high = 0, len(starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if starts[middle] <= offset else (low, middle)
        return {"line": low, "character": len(self.text[starts[low] : offset].encode("utf-16-le")) // 2}

    def place(self, offset: int) -> int:
        """The nearest offset that has a position: none is between the two characters of a line end."""
        return offset + 1 if self.text[offset - 1 : offset + 1] == "\r\n" else offset

    def replace(self, start: int, end: int, new: str) -> dict[str, Any]:
        """Changes the text; gives the change as it is sent."""
        start, end = self.place(start), self.place(end)
        end = max(start, end)
        starts = self.line_starts()
        change = {
            "range": {"start": self.position(start, starts), "end": self.position(end, starts)},
            "text": new,
        }
        self.text = self.text[:start] + new + self.text[end:]
        return change


class Client(Peer):
    """Keeps the newest published findings of each document."""

    def __init__(self, folder: Path):
        super().__init__(SERVER, folder)
        self.settings = dict(SETTINGS)
        self.shown: dict[str, tuple[int | None, list[Any]]] = {}
        self.initialize(folder, CAPABILITIES, dict(SETTINGS))

    def heard(self, arrived: float, message: dict[str, Any]) -> None:
        if message.get("method") == "textDocument/publishDiagnostics":
            params = message["params"]
            self.shown[params["uri"]] = (params.get("version"), params["diagnostics"])

    def open(self, file: File) -> None:
        file.version = 1
        item = {"uri": file.uri, "languageId": "cuda", "version": 1, "text": file.text}
        self.notify("textDocument/didOpen", textDocument=item)

    def close(self, file: File) -> None:
        self.notify("textDocument/didClose", textDocument={"uri": file.uri})

    def change(self, file: File, changes: Sequence[Any]) -> None:
        file.version += 1
        identifier = {"uri": file.uri, "version": file.version}
        self.notify("textDocument/didChange", textDocument=identifier, contentChanges=list(changes))

    def watched(self, *changes: tuple[Path, int]) -> None:
        events = [{"uri": path.as_uri(), "type": kind} for path, kind in changes]
        self.notify("workspace/didChangeWatchedFiles", changes=events)

    def status(self) -> dict[str, Any]:
        found = self.command("stitchcuda.status")
        assert isinstance(found, dict)
        return found

    def idle(self) -> dict[str, Any]:
        """Waits until nothing is analysed any more, and says what the server knows."""
        end = time.monotonic() + IDLE_SECONDS
        quiet = 0
        while quiet < 5:
            status = self.status()
            working = status["analysis"]["running"] or status["analysis"]["waiting"]
            quiet = 0 if working or any(j["state"] == "running" for j in status["jobs"]) else quiet + 1
            if time.monotonic() > end:
                raise RuntimeError(f"the server does not come to rest: {status['analysis']}")
            time.sleep(0.05)
        return status

    def lenses(self, file: File) -> Any:
        return self.ask("textDocument/codeLens", {"textDocument": {"uri": file.uri}})[1].get("result")


@dataclass
class Soak:
    """One run. `failures` says what went wrong."""

    folder: Path
    files: list[File]
    client: Client
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    failures: list[str] = field(default_factory=list)
    memory: list[dict[str, int]] = field(default_factory=list)
    hover_ms: list[float] = field(default_factory=list)
    renamed: int = 0

    # ------------------------------------------------------------------------------------------------------------ edits

    def edit(self) -> None:
        """One random thing that a user does; those that change a text are edits."""
        file = self.rng.choice(self.files)
        if file.edits >= REVERT_AFTER:
            self.revert(file)
            return
        file.edits += 1
        kind, action = self.rng.choices(self.EDITS, cum_weights=self.WEIGHTS)[0]
        self.counts[kind] += 1
        self.client.change(file, action(self, file))

    def revert(self, file: File) -> None:
        self.counts["undo all"] += 1
        file.edits = 0
        if self.rng.random() < 0.5:
            file.text = file.original
            self.client.change(file, [{"text": file.text}])
        else:
            self.client.change(file, [file.replace(0, len(file.text), file.original)])

    def _type(self, file: File) -> list[Any]:
        words = [m.start() for m in re.finditer(r"\w", file.text)] or [0]
        at = self.rng.choice(words)
        width = self.rng.choice((0, 1))
        return [file.replace(at, at + width, self.rng.choice("abcxyz0123456789_ ;"))]

    def _line(self, file: File) -> tuple[int, int]:
        starts = [*file.line_starts(), len(file.text)]
        number = self.rng.randrange(len(starts) - 1)
        return starts[number], starts[number + 1]

    def _delete_line(self, file: File) -> list[Any]:
        return [file.replace(*self._line(file), "")]

    def _comment_out(self, file: File) -> list[Any]:
        start, _ = self._line(file)
        return [file.replace(start, start, "// ")]

    def _double_line(self, file: File) -> list[Any]:
        start, end = self._line(file)
        return [file.replace(end, end, file.text[start:end])]

    def _statement(self, file: File) -> list[Any]:
        start, _ = self._line(file)
        return [file.replace(start, start, f"  {self.rng.choice(STATEMENTS)}\n")]

    def _odd(self, file: File) -> list[Any]:
        at = self.rng.randint(0, len(file.text))
        return [file.replace(at, at, self.rng.choice(ODD))]

    def _cut(self, file: File) -> list[Any]:
        at = self.rng.randint(0, len(file.text))
        return [file.replace(at, min(at + self.rng.randint(1, 60), len(file.text)), "")]

    def _several(self, file: File) -> list[Any]:
        return [self._type(file)[0] for _ in range(self.rng.randint(2, 20))]

    def _many(self, file: File) -> list[Any]:
        return [change for _ in range(100) for change in (*self._odd(file), *self._type(file))]

    EDITS: Sequence[tuple[str, Callable[[Soak, File], list[Any]]]] = (
        ("type", _type),
        ("delete line", _delete_line),
        ("comment out", _comment_out),
        ("double line", _double_line),
        ("statement", _statement),
        ("odd character", _odd),
        ("cut", _cut),
        ("several ranges", _several),
        ("200 ranges", _many),
    )
    WEIGHTS: Sequence[float] = tuple(accumulate((50, 8, 6, 6, 10, 6, 4, 3, 0.3)))

    # ------------------------------------------------------------------------------------------------- what is no edit

    def save(self, file: File) -> None:
        file.path.write_bytes(file.text.encode())
        self.client.notify("textDocument/didSave", textDocument={"uri": file.uri})
        self.client.watched((file.path, 2))

    def reopen(self, file: File) -> None:
        """Closed without saving: the text of the disk counts again, also in the other files of the program."""
        self.client.close(file)
        if self.rng.random() < 0.3:
            self.client.request("stitchcuda/unknown", {})
        file.text = file.path.read_bytes().decode()
        self.client.open(file)

    def rename(self, file: File) -> None:
        self.renamed += 1
        new = file.path.with_name(f"{file.path.stem.split('-')[0]}-{self.renamed}.cu")
        old = file.path
        self.save(file)
        old.rename(new)
        self.client.close(file)
        self.client.notify("workspace/didRenameFiles", files=[{"oldUri": old.as_uri(), "newUri": new.as_uri()}])
        self.client.watched((old, 3), (new, 1))
        self.client.shown.pop(file.uri, None)
        file.path = new
        self.client.open(file)

    def configure(self) -> None:
        chosen = self.rng.choice(OTHER_SETTINGS) if self.client.settings == SETTINGS else SETTINGS
        self.client.settings = dict(chosen)
        self.client.notify("workspace/didChangeConfiguration", settings=None)

    def hover(self, file: File) -> None:
        at = self.rng.randint(0, len(file.text))
        where = file.position(file.place(at), file.line_starts())
        params = {"textDocument": {"uri": file.uri}, "position": where}
        self.hover_ms.append(self.client.request("textDocument/hover", params))

    def other(self) -> None:
        """Between two edits, now and then."""
        file = self.rng.choice(self.files)
        draw = self.rng.random()
        things: Sequence[tuple[str, float, Callable[[], None]]] = (
            ("save", 0.03, lambda: self.save(file)),
            ("close and open", 0.015, lambda: self.reopen(file)),
            ("rename", 0.006, lambda: self.rename(file)),
            ("settings", 0.004, self.configure),
            ("hover", 0.03, lambda: self.hover(file)),
            ("pause", 0.03, lambda: time.sleep(self.rng.random() * 0.2)),
        )
        for kind, share, action in things:
            if draw < share:
                self.counts[kind] += 1
                action()
                return
            draw -= share

    # ----------------------------------------------------------------------------------------------------------- checks

    def check_mirror(self, edits: int) -> None:
        texts = self.client.status()["texts"]
        self.checks += 1
        want = {file.uri: {"version": file.version, "sha256": file.digest} for file in self.files}
        wrong = sorted(uri for uri in want.keys() | texts.keys() if want.get(uri) != texts.get(uri))
        if wrong:
            self.failures.append(f"after {edits} edits the server has another text of {', '.join(wrong)}")

    def measure(self, edits: int) -> None:
        """With the settings of the beginning: others make the analysis keep other things."""
        if self.client.settings != SETTINGS:
            self.configure()
        status = self.client.idle()
        time.sleep(QUIET_SECONDS)
        try:
            row = {"server_kb": resident(self.client.process.pid), "analysis_kb": resident(status["analysis"]["pid"])}
        except (OSError, IndexError, ValueError):
            return  # this system has no /proc
        self.memory.append({"edits": edits, **row})
        print(f"{edits} edits: {row}", flush=True)

    def compare_with_fresh(self) -> tuple[int, int]:
        """The findings and lenses of both; how many findings and lenses there are. Two thirds of the files are undone before: in code
        that is broken by so many edits there is little to find."""
        for file in self.files:
            if self.rng.random() < 0.67:
                self.revert(file)
        if self.client.settings != SETTINGS:
            self.configure()
        self.client.idle()
        if self.client.status()["analysis"]["restarts"]:
            self.failures.append("the analysis process ended in between")
        fresh = Client(self.folder)
        findings = lenses = 0
        try:
            for file in self.files:
                version = file.version
                fresh.open(file)
                file.version = version
            fresh.idle()
            for file in self.files:
                old, new = (_plain(c.shown.get(file.uri, (None, []))[1]) for c in (self.client, fresh))
                findings += len(new)
                if old != new:
                    self.failures.append(f"findings of {file.path.name}: {_difference(old, new)}")
                shown = self.client.shown.get(file.uri)
                if shown is not None and shown[1] and shown[0] != file.version:
                    self.failures.append(f"{file.path.name}: shown for version {shown[0]} of {file.version}")
                one, other = self.client.lenses(file), fresh.lenses(file)
                lenses += len(other or ())
                if one != other:
                    self.failures.append(f"lenses of {file.path.name} differ")
        finally:
            fresh.end()
        return findings, lenses

    def growth(self) -> dict[str, float]:
        """How much memory grew between the first measurement and the last one, as a share."""
        if len(self.memory) < 2:
            return {}
        first, last = self.memory[0], self.memory[-1]
        return {k: last[k] / first[k] - 1 for k in ("server_kb", "analysis_kb")}


def _plain(items: Sequence[Any]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True, ensure_ascii=False) for item in items)


def _difference(old: Sequence[str], new: Sequence[str]) -> str:
    gone, come = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    return f"{len(gone)} that a fresh server does not have {gone[:1]}, {len(come)} that it has alone {come[:1]}"


def run(edits: int, files: int, seed: int, measure_every: int = 1000) -> dict[str, Any]:
    """The report, without machine and date. Raises what a server that does not answer raises."""
    rng = random.Random(seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name).resolve()
        paths = workspace(folder, files, rng)
        texts = [(path, path.read_bytes().decode()) for path in paths]
        client = Client(folder)
        soak = Soak(folder, [File(path, text, text) for path, text in texts], client, rng)
        try:
            for file in soak.files:
                client.open(file)
            for number in range(1, edits + 1):
                soak.edit()
                soak.other()
                if number % CHECK_EVERY == 0 or number == edits:
                    soak.check_mirror(number)
                if number % measure_every == 0:
                    soak.measure(number)
            findings, lenses = soak.compare_with_fresh()
            cpu = client.cpu()
        finally:
            client.end()
    growth = soak.growth()
    soak.failures += [f"{what} grew by {100 * share:.1f} %" for what, share in growth.items() if share > GROWTH]
    return {
        "seed": seed,
        "files": files,
        "edits": edits,
        "done": dict(soak.counts.most_common()),
        "mirror_checks": soak.checks,
        "findings": findings,
        "lenses": lenses,
        "memory": soak.memory,
        "growth": {k: round(v, 4) for k, v in growth.items()},
        "hover_ms": {"p50": percentile(soak.hover_ms, 0.5), "p99": percentile(soak.hover_ms, 0.99)},
        "seconds": round(time.monotonic() - began, 1),
        "server_cpu_seconds": round(cpu, 1),
        "failures": soak.failures,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--edits", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "soak.json")
    arguments = parser.parse_args()
    before = load()
    report = run(arguments.edits, arguments.files, arguments.seed)
    command = "python -m benchmarks.soak " + " ".join(sys.argv[1:])
    text = json.dumps({**header(command.strip(), before), **report}, indent=1) + "\n"
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(text, encoding="utf-8")
    print(json.dumps({k: v for k, v in report.items() if k != "memory"}, indent=1))
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
