"""While a program is read, what is told of its comments on the way waits until all of it was analysed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.server import program as programs
from stitchcuda.server.engine import process as process_module
from stitchcuda.server.engine.messages import (
    Check,
    DiskChanged,
    OpenText,
    Partly,
    Reply,
    Request,
    Result,
    Texts,
    Workspace,
)
from stitchcuda.server.engine.process import AnalysisProcess

UNUSED = "unused-suppression"
OPEN = """
__global__ void k(float *p) { p[threadIdx.x] = 1; }
void one(float *p) { k<<<1, 1>>>(p); cudaDeviceSynchronize(); }
// stitchcuda: ignore[leak] for now
void two(float *p) { k<<<1, 1>>>(p); cudaDeviceSynchronize(); }
"""
OTHER = "void two(float *p);\nint main() { float *p; cudaMalloc(&p, 4); two(p); cudaFree(p); }\n"


class NothingWaits:
    """An inbox without requests."""

    def running(self, path: str | None) -> threading.Event:
        return threading.Event()

    def superseded(self, path: str) -> bool:
        return False

    def has_check(self) -> bool:
        return False

    def is_waiting(self) -> bool:
        return False

    def put_back(self, request: Request) -> None:
        raise AssertionError(request)


class Always:
    """A pace that tells everything."""

    def __init__(self, tell: Callable[[Any], bool], size: int, is_new: bool) -> None:
        self._tell = tell

    def __call__(self, make: Callable[[], Any]) -> bool:
        known = make()
        return known is not None and self._tell(known)


def codes(reply: Result | Partly, path: str) -> set[str]:
    return {finding.code for finding in reply.facts[path].findings}


def test_comments_are_told_when_the_whole_program_was_analysed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "Pace", Always)
    monkeypatch.setattr(process_module, "_FEW_BYTES", 0)
    path = str(tmp_path / "a.cu")
    (tmp_path / "a.cu").write_text(OPEN)
    (tmp_path / "b.cu").write_text(OTHER)
    sent: list[Reply] = []
    process = AnalysisProcess(NothingWaits(), sent.append, lambda: Index(strict=True))  # type: ignore[arg-type]
    process.handle(Workspace((str(tmp_path),), True))

    def check(text: str, revision: int) -> list[Result | Partly]:
        sent.clear()
        process.handle(Texts({path: OpenText(revision, "cuda-cpp", text.encode())}))
        process.handle(Check(path))
        return [reply for reply in sent if isinstance(reply, Result | Partly)]

    replies = check(OPEN, 1)
    part, whole = [reply for reply in replies if isinstance(reply, Result)]
    assert (part.complete, whole.complete) == (False, True)
    between = replies[replies.index(part) + 1 : replies.index(whole)]
    assert between, "something is told of the whole program on the way"
    assert not any(UNUSED in codes(reply, path) for reply in replies if reply is not whole)
    assert UNUSED in codes(whole, path)

    *partly, end = check("// more\n" + OPEN, 2)
    assert partly and all(isinstance(reply, Partly) for reply in partly)
    assert all(UNUSED in codes(reply, path) for reply in (*partly, end)), "now it stays"


def test_a_folder_that_no_program_is_made_of_costs_the_process_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file there is analysed alone, in each request that asks which program it is part of, and so are those of other folders."""
    wrong, fine = tmp_path / "wrong" / "a.cu", tmp_path / "fine" / "a.cu"
    of = programs.of

    def failing(path: str, *arguments: Any) -> Any:
        if path == str(wrong):
            raise RuntimeError("secret")
        return of(path, *arguments)

    monkeypatch.setattr(programs, "of", failing)
    sent: list[Reply] = []
    process = AnalysisProcess(NothingWaits(), sent.append, lambda: Index(strict=True))  # type: ignore[arg-type]
    process.handle(Workspace((str(tmp_path),), True))
    process.handle(Texts({str(path): OpenText(1, "cuda-cpp", OPEN.encode()) for path in (wrong, fine)}))
    for path in (wrong, fine):
        path.parent.mkdir()
        path.write_text(OPEN)
        process.handle(Check(str(path)))
    process.handle(DiskChanged(()))
    process.handle(Check(str(fine)))
    done = [reply for reply in sent if isinstance(reply, Result)]
    assert [reply.path for reply in done] == [str(wrong), str(fine), str(fine)]
    said = capfd.readouterr().err
    assert "RuntimeError at test_part_of_a_program.py" in said and "secret" not in said
