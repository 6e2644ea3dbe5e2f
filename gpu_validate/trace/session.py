"""Runs a program under the tracer.

Every run of a program has the same command, environment and library: what kind of run it is travels in a file without a name
that the program inherits (see native/wire.h), so that a program does not behave otherwise in one of them by accident. The tracer
lives in the program's own process: one that sets out to deceive it can read that file, and write to it
(docs/trust.md).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.gpu_validate.processes import Ended, Limits, clean_environment, run_limited
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.trace.reader import read_trace
from stitchcuda.gpu_validate.trace.records import CAPACITY, CONTENTS, DATA, MAGIC

SIZE = CAPACITY + CONTENTS  # of the file, in every run
FIRST_DESCRIPTOR = 100  # high, so that it is the same number in every run as a rule
MODES = ("timing", "full")
MAX_DELAYS = 64
POISON = 0x4B  # finite and large as a float of any width, and as an integer


@dataclass(frozen=True, slots=True)
class Delay:
    """Holds the operations of one stream back: before operation number `skip` of it (from 0) and those after, `count` of them
    (0: all), the stream pauses for `microseconds`. Streams are numbered as in a Trace."""

    stream: int
    microseconds: int
    skip: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """`mode`: "timing" or "full". `poison` fills new device memory with a pattern before the program can use it. `operations`
    records device operations in timing mode as well (0.3 microseconds a launch, benchmarks/tracer.py), so that the trace has
    the time that the device was busy. `contents` keeps what copies brought to the host beside its digest, up to `CONTENTS` bytes of a
    run, the same contents once. Runs in full mode, with delays, poison or contents are never used for times."""

    mode: str
    delays: tuple[Delay, ...] = ()
    poison: bool = False
    operations: bool = False
    contents: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode is {' or '.join(MODES)}, not {self.mode!r}")
        if len(self.delays) > MAX_DELAYS:
            raise ValueError(f"at most {MAX_DELAYS} delays, not {len(self.delays)}")


def run_traced(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None,
    limits: Limits,
    request: TraceRequest,
    library: Path,
    cancel: Callable[[], bool] | None = None,
    scratch: Path | None = None,
    network: bool = False,
) -> tuple[Ended, Trace | None]:
    """Runs `command` (see `run_limited`) under the tracer `library`. The trace is None when the program could not be started,
    or what the tracer wrote cannot be read. Needs Linux."""
    with _channel(request) as descriptor:
        environment = clean_environment() if env is None else dict(env)
        environment["CUDA_INJECTION64_PATH"] = str(library)
        environment["STITCHCUDA_TRACE_FD"] = str(descriptor)
        start = time.monotonic_ns()
        ended = run_limited(
            command,
            cwd=cwd,
            env=environment,
            limits=limits,
            pass_fds=(descriptor,),
            cancel=cancel,
            scratch=scratch,
            network=network,
        )
        end = time.monotonic_ns()
        if ended.not_started:
            return ended, None
        if os.fstat(descriptor).st_size < SIZE:
            return ended, None
        with mmap.mmap(descriptor, SIZE, prot=mmap.PROT_READ) as memory:
            return ended, read_trace(memory, request.mode, start, end)


@contextmanager
def _channel(request: TraceRequest) -> Iterator[int]:
    """The descriptor of the file that the tracer writes to."""
    if hasattr(os, "memfd_create"):
        first = os.memfd_create("trace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        with tempfile.TemporaryFile() as file:
            first = os.dup(file.fileno())
    try:
        descriptor = fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR)
    finally:
        os.close(first)
    try:
        os.ftruncate(descriptor, SIZE)
        if hasattr(os, "memfd_create"):  # a program that cut the file while it is read would end this process
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        os.pwrite(descriptor, _configuration(request), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _configuration(request: TraceRequest) -> bytes:
    """`Header` of native/wire.h."""
    head = struct.pack(
        "<8sQQQQQIIII",
        MAGIC,
        CAPACITY,
        DATA,
        0,
        CAPACITY if request.contents else 0,
        SIZE,
        MODES.index(request.mode),
        0x100 | POISON if request.poison else 0,
        int(request.operations),
        len(request.delays),
    )
    return head + b"".join(struct.pack("<IIII", d.stream, d.microseconds, d.skip, d.count) for d in request.delays)
