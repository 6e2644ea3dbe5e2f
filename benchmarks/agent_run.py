"""Load beside a language server: a stitch run that asks a model, builds what it writes and judges it, again and again, and a validation
that waits for its turn. The model is the tests' scripted endpoint: a real HTTP server on loopback that thinks for a moment and streams
its words, so that the run is the one that users have, but for what the words are."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from benchmarks.peer import Peer
from tests.llm import answers
from tests.llm.endpoint import Request, ScriptedEndpoint

EXAMPLE = Path(__file__).parents[1] / "examples" / "vit"
BEGUN_SECONDS = 240.0  # until the model is asked: the original is built and run first
THINKS, PIECE = 0.3, 0.01  # seconds before the first word, and between words
CHANGED, INCLUDE = "ops.cu", '#include "ops.h"\n'
PLAN: dict[str, Any] = {
    "done": False,
    "steps": ["keep more in registers"],
    "expected_bottleneck": "launches",
    "risks": [],
    "constraints": [],
    "targets": [CHANGED],
}


@contextlib.contextmanager
def model() -> Iterator[tuple[ScriptedEndpoint, dict[str, str]]]:
    """The endpoint, and the environment for programs that are to find it."""
    asked = 0

    def reply(request: Request) -> answers.Answer:
        nonlocal asked
        asked += 1
        role = str(request.json.get("response_format", request.json.get("text", "")))
        said: dict[str, Any] = {**PLAN, "summary": f"step {asked}"}
        if "architect" not in role:
            edit = {"kind": "replace", "path": CHANGED, "anchor": INCLUDE, "text": f"{INCLUDE}// step {asked}\n"}
            said = {"why": "the same values in one pass", "edits": [edit]}
        return answers.late(answers.slow(answers.say_json(said), PIECE), THINKS)

    with ScriptedEndpoint(then=reply) as endpoint:
        yield endpoint, {"STITCHCUDA_LLM_URL": endpoint.url, "STITCHCUDA_LLM_MODEL": "coder"}


def environment(found: Mapping[str, str], folder: Path) -> dict[str, str]:
    """With settings, caches and agreements of its own."""
    own = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "STATE")}
    return {**os.environ, **found, **own}


class Beside:
    """The jobs: those of our server, or the same command beside another one. `asked` counts the requests that the model got."""

    def __init__(
        self,
        server: Peer,
        folder: Path,
        ours: bool,
        endpoint: ScriptedEndpoint,
        env: Mapping[str, str],
        begun_seconds: float = BEGUN_SECONDS,
    ):
        """`begun_seconds`: how long the model is waited for; until then the original is built and run, which is load as well."""
        self.server, self.ours, self.endpoint, self.env = server, ours, endpoint, env
        self._begun_seconds = begun_seconds
        self.started = 0
        self._before = 0
        self.programs = [folder / "load" / name for name in ("stitched", "validated")]
        for program in self.programs:
            if not program.exists():
                shutil.copytree(EXAMPLE, program)
        self.beside: subprocess.Popen[bytes] | None = None

    @property
    def asked(self) -> int:
        return len(self.endpoint.requests) - self._before

    def __enter__(self) -> Self:
        self._before = len(self.endpoint.requests)
        if self.ours:
            for program in self.programs:
                file = program / "main.cu"
                text = file.read_text(encoding="utf-8")
                item = {"uri": file.as_uri(), "languageId": "cuda", "version": -1, "text": text}
                self.server.notify("textDocument/didOpen", textDocument=item)
        end = time.monotonic() + self._begun_seconds
        while not self.asked and time.monotonic() < end:
            self.keep_going()
            time.sleep(0.5)
        return self

    def keep_going(self) -> None:
        """Starts what has ended."""
        if not self.ours:
            if self.beside is None or self.beside.poll() is not None:
                self.started += 1
                words = ("-m", "stitchcuda.server.cli", "stitch", str(self.programs[0]), "--proposer", "llm")
                self.beside = subprocess.Popen(
                    [sys.executable, *words],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    env=self.env,
                )
            return
        status: dict[str, Any] = self.server.command("stitchcuda.status")
        titles = " ".join(job["title"] for job in status["jobs"] if job["state"] == "running")
        for word, command, program in zip(("Stitch", "Validate"), ("stitch", "validate"), self.programs, strict=True):
            if word not in titles:
                self.started += 1
                self.server.command(f"stitchcuda.{command}", (program / "main.cu").as_uri())

    def __exit__(self, *_: object) -> None:
        if self.ours and self.server.process.poll() is None:
            with contextlib.suppress(RuntimeError, OSError):
                for job in self.server.command("stitchcuda.status")["jobs"]:
                    if job["state"] == "running":
                        self.server.command("stitchcuda.cancel", job["id"])
        if self.beside is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.beside.pid, signal.SIGKILL)
            self.beside.wait()
