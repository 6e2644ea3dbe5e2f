"""The other side of a language server on pipes: sends JSON, keeps what comes with the time of its arrival, and reads what the
server's processes use from /proc."""

from __future__ import annotations

import json
import os
import platform
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 180


class Peer:
    """A running server. Requests of the server (progress, registrations) are answered with null, `workspace/configuration` with
    `settings`, `workspace/applyEdit` with a refusal, a question with its first button."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None):
        self.settings: Any = None
        self.patience: float = PATIENCE_SECONDS  # for one answer
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
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
            if "method" in message and "id" in message:
                self.send(id=message["id"], result=self._answer(message))
            self.inbox.put((arrived, message))

    def _answer(self, message: dict[str, Any]) -> Any:
        if message["method"] == "workspace/configuration":
            return [self.settings for _ in message["params"]["items"]]
        if message["method"] == "window/showMessageRequest":
            return next(iter(message["params"].get("actions") or ()), None)
        return {"applied": False} if message["method"] == "workspace/applyEdit" else None

    def send(self, **fields: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **fields}).encode()
        assert self.process.stdin is not None
        with self.writing:  # the reading thread answers requests
            self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self.process.stdin.flush()

    def notify(self, method: str, **params: Any) -> None:
        self.send(method=method, params=params)

    def ask(self, method: str, params: Any) -> tuple[float, dict[str, Any]]:
        """When the answer arrived, and the answer (an error is one). What came before it is passed to `heard`."""
        self.number += 1
        number = self.number
        self.send(id=number, method=method, params=params)
        while True:
            arrived, message = self.inbox.get(timeout=self.patience)
            if message.get("id") == number and "method" not in message:
                return arrived, message
            self.heard(arrived, message)

    def heard(self, arrived: float, message: dict[str, Any]) -> None:
        """For classes that keep what the server says by itself."""

    def request(self, method: str, params: Any) -> float:
        """Milliseconds until the answer."""
        began = time.perf_counter()
        return (self.ask(method, params)[0] - began) * 1e3

    def command(self, name: str, *arguments: Any) -> Any:
        _, message = self.ask("workspace/executeCommand", {"command": name, "arguments": list(arguments)})
        if "error" in message:
            raise RuntimeError(message["error"]["message"])
        return message["result"]

    def initialize(self, folder: Path, capabilities: Any, options: Any) -> float:
        """Milliseconds from the start of the process to the answer."""
        params = {
            "processId": os.getpid(),
            "rootUri": folder.as_uri(),
            "capabilities": capabilities,
            "initializationOptions": options,
        }
        arrived, _ = self.ask("initialize", params)
        self.notify("initialized")
        return (arrived - self.began) * 1e3

    def diagnostics(self, version: int) -> tuple[float, int]:
        """When the diagnostics of a version arrived, and how many they were."""
        while True:
            arrived, message = self.inbox.get(timeout=self.patience)
            if message.get("method") == "textDocument/publishDiagnostics":
                params = message["params"]
                if params.get("version", version) == version:
                    return arrived, len(params["diagnostics"])

    def processes(self) -> list[int]:
        """The server and all below it (Linux; else the server alone)."""
        found, waiting = [], [self.process.pid]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            try:
                waiting += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            except OSError:
                continue
        return found

    def memory(self) -> int | None:
        """Resident megabytes of the process and its children (Linux)."""
        try:
            return sum(resident(pid) for pid in self.processes()) // 1024
        except (OSError, IndexError, ValueError):
            return None

    def cpu(self) -> float:
        """Seconds of processor time of the process and its children (Linux; else NaN): does not depend on the load."""
        try:
            total = 0
            for pid in self.processes():
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
            return total / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            return float("nan")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def resident(pid: int) -> int:
    """Resident kilobytes of a process (Linux)."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)] if values else float("nan")


def load() -> tuple[float, ...]:
    return os.getloadavg() if hasattr(os, "getloadavg") else ()


def header(command: str, before: tuple[float, ...]) -> dict[str, Any]:
    """What a report of a measurement begins with. `before` is the load at its start."""
    from stitchcuda.server.cli import doctor  # not while something is measured

    return {
        "schema": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "analysis": doctor.analysis(),
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "load_before": before,
            "load_after": load(),
            "python": platform.python_version(),
        },
        "versions": {
            name: _version(name) for name in ("stitchcuda", "pygls", "lsprotocol", "tree-sitter", "tree-sitter-cuda")
        },
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""  # not every measurement needs it


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
        return next(line.split(":")[1].strip() for line in text.split("\n") if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
