"""An edit of a file that many programs hold: its own comes first, the others when nothing else is asked for."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

from stitchcuda.analysis.index import Index
from stitchcuda.server.engine.inbox import Inbox
from stitchcuda.server.engine.messages import Begun, Check, OpenText, Reply, Result, Texts, Workspace
from stitchcuda.server.engine.process import AnalysisProcess

HEADER = (
    "void copy(float *d, float *h, cudaStream_t s) { cudaMemcpyAsync(d, h, 64, cudaMemcpyHostToDevice, s); WAIT }\n"
)
MAIN = """#include "shared.h"
__global__ void k(float *p) { p[threadIdx.x] += 1; }
int main() {
  float *d, *h;
  cudaMalloc(&d, 64);
  cudaMallocHost(&h, 64);
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  copy(d, h, a);
  k<<<1, 16, 0, b>>>(d);
  cudaDeviceSynchronize();
}
"""
FIXED, BROKEN = (HEADER.replace("WAIT", wait) for wait in ("cudaStreamSynchronize(s);", ""))


class Quiet:
    """An inbox in which nothing waits, but for a check of another file while `busy`."""

    def __init__(self) -> None:
        self.busy = False

    def put_back(self, request: Any) -> None:
        raise AssertionError(request)

    def superseded(self, path: str) -> bool:
        return False

    def has_check(self) -> bool:
        return self.busy

    def is_waiting(self) -> bool:
        return False

    def running(self, path: str | None) -> threading.Event:
        return threading.Event()

    def yielding(self) -> threading.Event:
        event = threading.Event()
        if self.busy:
            event.set()
        return event


class Session:
    def __init__(self, folder: Path, mains: int):
        self.inbox = Quiet()
        self.replies: list[Reply] = []
        self.process = AnalysisProcess(cast(Inbox, self.inbox), self.replies.append, Index)
        self.header = str(folder / "shared.h")
        self.mains = [str(folder / f"main{number}.cu") for number in range(mains)]
        for path in (self.header, *self.mains):
            Path(path).write_text(BROKEN if path == self.header else MAIN)
        self.process.handle(Workspace((str(folder),), True))
        self.revision = 0

    def put(self, path: str, text: str) -> list[str]:
        """Of which files is told what was found because of the new text of one, in order, each with how many races it has."""
        self.revision += 1
        self.replies.clear()
        self.process.handle(Texts({path: OpenText(self.revision, "cuda", text.encode())}, ()))
        self.process.handle(Check(path))
        return self.told()

    def told(self) -> list[str]:
        results = [r for r in self.replies if isinstance(r, Result)]
        facts = [f for r in results for f in r.facts.values() if f.path != self.header]
        return [f"{Path(f.path).stem} {sum(x.code == 'stream-race-raw' for x in f.findings)}" for f in facts]


def test_the_own_program_comes_first_and_the_others_as_they_were_asked_about(tmp_path: Path) -> None:
    session = Session(tmp_path, 4)
    for main in session.mains:
        session.put(main, MAIN)
    assert session.put(session.mains[0], MAIN + "\n") == ["main0 1"]
    session.put(session.mains[0], MAIN)
    session.put(session.header, BROKEN)
    while session.process.catch_up():
        pass
    assert session.put(session.header, FIXED) == []
    assert session.put(session.mains[1], MAIN + "\n") == ["main1 0"]
    session.replies.clear()
    while session.process.catch_up():
        pass
    assert session.told() == ["main0 0", "main3 0", "main2 0"]
    assert session.replies[-1] == Begun("") and session.replies.count(Begun("")) == 1


def test_a_check_goes_first(tmp_path: Path) -> None:
    session = Session(tmp_path, 3)
    for main in session.mains:
        session.put(main, MAIN)
    session.put(session.header, FIXED)
    session.inbox.busy = True
    assert session.process.catch_up() and session.told() == []
    session.inbox.busy = False
    session.process.handle(Texts({}, (session.mains[2],)))
    while session.process.catch_up():
        pass
    assert session.told() == ["main1 0", "main0 0"]
