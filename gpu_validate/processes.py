"""Runs programs that nobody vouches for: with limits, without the network where that can be had, and without leftovers.

On POSIX systems `warden.py` starts the program and is the process to which its orphans fall, so that nothing of it lives on
(elsewhere than Linux only what stayed in its process group is found). On Windows the limits hold for the process tree that
`taskkill` sees. What was not possible on a machine is said in the result: `isolated`, `contained`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stitchcuda.gpu_validate.usage import beginning, descendants, folder_bytes, kill_session, resident_bytes

GRACE_SECONDS = 2.0  # between SIGTERM and SIGKILL
TICK_SECONDS = 0.05
WATCH_SECONDS = 0.25  # between two looks at memory and files
WATCH_SHARE = 20  # a look at the files costs at most about 1/20 of the time
MOST_PROCESSES = 4000  # of one program
WARDEN = Path(__file__).with_name("warden.py")
WARDEN_SECONDS = 30.0  # to start, and to end what is left (itself gives up after 10 s)
READ_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use. `file_bytes` is both the largest file and what it may add below its scratch folder;
    `memory_bytes` is resident memory of all its processes (address space is no measure: CUDA reserves terabytes). Beside these
    there is one on the number of its processes, `MOST_PROCESSES`."""

    seconds: float = 60.0
    output_bytes: int = 64 << 20  # of stdout and stderr together
    file_bytes: int = 2 << 30
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended. Exactly one of `code`, `signal`, `not_started` tells, or none when it could not be ended at all."""

    code: int | None = None
    signal: int | None = None
    stdout: bytes = b""  # what fitted into the limit
    stderr: bytes = b""
    seconds: float = 0.0  # from start to end of the program itself
    cpu_seconds: float = 0.0
    stopped: str = ""  # the limit it met ("seconds", "output_bytes", "processes", ...), "cancelled", or "containment"
    not_started: str = ""  # why it could not be started
    isolated: bool = False  # no network could be reached
    not_isolated: str = ""  # why it could be, when it was to be cut off
    contained: bool = False  # every process that it started could be found
    left_behind: int = 0  # processes of it that were there still when it had ended; they were killed
    stuck: tuple[int, ...] = field(default=())  # process ids that could not be killed: a driver is wedged

    @property
    def ok(self) -> bool:
        """It ran to its end, within its limits, and said that all was well."""
        return self.code == 0 and not self.stopped and not self.not_started

    def describe(self) -> str:
        """How it ended, as the end of a sentence that begins with the program's name."""
        if self.not_started:
            return f"could not be started: {self.not_started}"
        if self.stopped == "cancelled":
            return "was cancelled"
        if self.stopped == "containment":
            return "ended the process that watches it"
        if self.stopped:
            return f"was stopped: it went over its limit of {self.stopped.replace('_', ' ')}"
        if self.stuck:
            return f"could not be ended (process {self.stuck[0]} is stuck in the driver)"
        if self.signal is not None:
            return f"was ended by signal {self.signal}"
        return f"ended with {self.code}"


_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|TMPDIR|TMP|TEMP|LD_LIBRARY_PATH|LIBRARY_PATH|DYLD_\w*PATH|"
    r"C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|CPATH|INCLUDE|LIB|LIBPATH|PKG_CONFIG_PATH|CC|CXX|CUDACXX|CUDAHOSTCXX|CUDAARCHS|"
    r"CFLAGS|CXXFLAGS|CUDAFLAGS|LDFLAGS|CUDA_\w+|NVCC_\w+|NVIDIA_\w+|OMP_\w+|CMAKE_\w+|CONDA_PREFIX|VIRTUAL_ENV|"
    r"SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|PATHEXT|PROGRAMFILES|PROGRAMDATA|USERPROFILE|NUMBER_OF_PROCESSORS",
    re.IGNORECASE,
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS(WORD|WD)?\b|CREDENTIAL|AUTH|COOKIE|_URL\b|_URI\b|PROXY", re.IGNORECASE)
_INJECTED = re.compile(r"CUDA_INJECTION\w*|NVTX_INJECTION\w*")


def clean_environment(
    added: Mapping[str, str] | None = None, *, home: Path | None = None, source: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What a program needs of `source` (this process's environment) and nothing that could be a secret, then `added` as it
    is. With `home`, HOME and the temporary folder are there."""
    given = os.environ if source is None else source
    kept = {
        name: value
        for name, value in given.items()
        if _KEPT.fullmatch(name) and not _SECRET.search(name) and not _INJECTED.fullmatch(name)
    }
    if home is not None:
        kept.update(HOME=str(home), TMPDIR=str(home), TMP=str(home), TEMP=str(home))
    return {**kept, **(added or {})}


def run_limited(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    limits: Limits = Limits(),
    pass_fds: Sequence[int] = (),
    cancel: Callable[[], bool] | None = None,
    scratch: Path | None = None,
    network: bool = False,
) -> Ended:
    """Runs `command` to its end or to a limit, without input, and leaves none of its processes.

    `env` is the whole environment (default: `clean_environment()`); `scratch` is the folder whose growth is watched (default:
    `cwd`), with the temporary folder when `env` names one of its own; `cancel` is asked every 50 ms or so; `pass_fds` keep their numbers. Never raises for what the program does.
    Can be used from any thread.
    """
    environment = clean_environment() if env is None else dict(env)
    program = (
        shutil.which(command[0], path=environment.get("PATH", os.defpath)) if os.sep not in command[0] else command[0]
    )
    if program is None:
        return Ended(not_started=f"{command[0]} is not on PATH")
    if any("\0" in text for text in (*command, *environment, *environment.values())):
        return Ended(not_started="a NUL character in the command or the environment")
    if not cwd.is_dir():
        return Ended(not_started=f"there is no folder {cwd}")
    temporary = environment.get("TMPDIR", "")
    own = [Path(temporary)] if temporary and temporary != os.environ.get("TMPDIR") else []
    watch = _Watch(limits, [scratch or cwd, *own], cancel)
    if os.name == "nt":
        return _run_tree([program, *command[1:]], cwd, environment, watch)
    request = {
        "program": program,
        "argv": list(command),
        "cwd": str(cwd),
        "env": environment,
        "file_bytes": limits.file_bytes,
        "pass_fds": list(pass_fds),
        "isolate": not network,
    }
    try:
        run = _Run(request, watch, pass_fds)
    except OSError as error:
        return Ended(not_started=f"the process that watches it could not be started: {error.strerror or error}")
    return run.finish()


class _Watch:
    """Asks at every tick whether the program must be stopped."""

    def __init__(self, limits: Limits, folders: Sequence[Path], cancel: Callable[[], bool] | None) -> None:
        self.limits, self._folders, self._cancel = limits, folders, cancel
        self.seen: dict[int, int] = {}  # the program's processes at the last look, with when they began
        self._start = self._looked = time.monotonic()
        self._pause = WATCH_SECONDS
        self._before = sum(map(folder_bytes, folders))

    def reason(self, processes: Callable[[], list[int]], output: int) -> str:
        """Why the program must be stopped now, or ""."""
        now = time.monotonic()
        if now - self._start > self.limits.seconds:
            return "seconds"
        if output > self.limits.output_bytes:
            return "output_bytes"
        if self._cancel is not None and self._cancel():
            return "cancelled"
        if now - self._looked < self._pause:
            return ""
        self.look_at(processes())
        if len(self.seen) > MOST_PROCESSES:
            return "processes"
        memory = self.limits.memory_bytes
        if memory is not None and sum(map(resident_bytes, self.seen)) > memory:
            return "memory_bytes"
        if self.grown() > self.limits.file_bytes:
            return "file_bytes"
        self._looked = time.monotonic()
        self._pause = max(WATCH_SECONDS, (self._looked - now) * WATCH_SHARE)
        return ""

    def look_at(self, processes: Sequence[int]) -> None:
        """Keeps who is there, for when the warden is not any more."""
        self.seen = {pid: beginning(pid) for pid in processes}

    def grown(self) -> int:
        """Bytes added below the folders."""
        return sum(map(folder_bytes, self._folders)) - self._before


class _Run:
    """One program under a warden."""

    def __init__(self, request: Mapping[str, object], watch: _Watch, pass_fds: Sequence[int]) -> None:
        self._watch = watch
        self._out: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._seen = 0  # bytes, kept or not
        self._told: dict[str, object] = {}
        self._partial = b""
        self._stopped = ""
        self._contained = True
        self._control, theirs = socket.socketpair()
        with contextlib.ExitStack() as on_error, theirs:
            on_error.callback(self._control.close)
            self._warden = subprocess.Popen(
                [sys.executable, "-I", "-S", str(WARDEN), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_warden_environment(),
                start_new_session=True,
                pass_fds=(*pass_fds, theirs.fileno()),
            )
            on_error.pop_all()
        self._control.sendall(json.dumps(request).encode() + b"\n")

    def finish(self) -> Ended:
        try:
            self._listen()
        finally:  # also for KeyboardInterrupt: the warden kills everything once this end is closed
            self._control.close()
            try:
                self._warden.wait(WARDEN_SECONDS)
            except subprocess.TimeoutExpired:
                self._watch.look_at(self._processes())
                self._warden.kill()
                self._warden.wait()
                self._contained = False
            for pipe in (self._warden.stdout, self._warden.stderr):
                if pipe is not None:
                    pipe.close()
        return self._result()

    def _listen(self) -> None:
        """Takes in what the program prints and what the warden tells, until nothing is left of either."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ, "control")
            for name, pipe in (("stdout", self._warden.stdout), ("stderr", self._warden.stderr)):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, name)
            give_up = force = float("inf")
            while "control" in {key.data for key in selector.get_map().values()} and time.monotonic() < give_up:
                for key, _ in selector.select(TICK_SECONDS):
                    if not (self._hear() if key.data == "control" else self._read(key.fd, key.data)):
                        selector.unregister(key.fileobj)
                with contextlib.suppress(OSError):
                    self._warden.send_signal(signal.SIGCONT)  # the program can have stopped it
                if not self._stopped and "ended" not in self._told:
                    self._stopped = self._watch.reason(self._processes, self._seen)
                    if self._stopped:
                        force = time.monotonic() + 2 * GRACE_SECONDS
                        give_up = force + WARDEN_SECONDS
                        self._tell_stop()
                if time.monotonic() > force:  # a program can stop its warden again and again: then we end it ourselves
                    for process in self._processes():
                        with contextlib.suppress(OSError):
                            os.kill(process, signal.SIGKILL)
            for key in list(selector.get_map().values()):  # everybody who could write is gone: no waiting for an end
                while key.data != "control" and self._read(key.fd, key.data, drained=True):
                    pass

    def _read(self, descriptor: int, name: str, drained: bool = False) -> bool:
        """Whether there may be more."""
        try:
            chunk = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return not drained
        room = max(0, self._watch.limits.output_bytes - self._seen)
        self._out[name] += chunk[:room]
        self._seen += len(chunk)
        return bool(chunk) and not (drained and not room)

    def _hear(self) -> bool:
        try:
            chunk = self._control.recv(1 << 16)
        except ConnectionError:
            chunk = b""
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            self._told.update(json.loads(line))
        return bool(chunk) and "left" not in self._told and "not_started" not in self._told

    def _tell_stop(self) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps({"stop": GRACE_SECONDS}).encode() + b"\n")

    def _processes(self) -> list[int]:
        return descendants(self._warden.pid)

    def _result(self) -> Ended:
        told = self._told
        stdout, stderr = bytes(self._out["stdout"]), bytes(self._out["stderr"])
        if "not_started" in told:
            return Ended(not_started=str(told["not_started"]))
        if "started" not in told:
            return Ended(not_started=f"the process that watches it failed: {stderr.decode(errors='replace')[-400:]}")
        status = told.get("ended")
        ended = int(status) if isinstance(status, int) else None
        stopped, stuck = self._stopped, told.get("stuck", ())
        if ended is None and (not stopped or not self._contained):
            # The program killed or held its warden: what can still be found of it is killed.
            kill_session(_integer(told["started"]), self._watch.seen)
            stopped, self._contained = stopped or "containment", False
        if not stopped:
            limits = self._watch.limits
            full = ended == -_SIGXFSZ or self._watch.grown() >= limits.file_bytes  # or the program saw its write fail
            stopped = "output_bytes" if self._seen > limits.output_bytes else "file_bytes" if full else ""
        return Ended(
            code=ended if ended is not None and ended >= 0 else None,
            signal=-ended if ended is not None and ended < 0 else None,
            stdout=stdout,
            stderr=stderr,
            seconds=_number(told.get("seconds")),
            cpu_seconds=_number(told.get("cpu")),
            stopped=stopped,
            isolated=bool(told["isolated"]),
            not_isolated=str(told["why"]),
            contained=bool(told["reaper"]) and self._contained,
            left_behind=_integer(told.get("left", 0)),
            stuck=tuple(stuck) if isinstance(stuck, list) else (),
        )


_SIGXFSZ = 25


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _warden_environment() -> dict[str, str]:
    """Only what Python itself may need to start: the program can read its parent's environment."""
    return {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL") if name in os.environ}


def _run_tree(command: list[str], cwd: Path, environment: Mapping[str, str], watch: _Watch) -> Ended:
    """The reduced form: one process tree, output through files, no network isolation. Used where there is no warden."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        except OSError as error:
            return Ended(not_started=str(error.strerror or error))
        stopped = ""
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TICK_SECONDS)
                break
            stopped = watch.reason(list, os.fstat(out.fileno()).st_size + os.fstat(err.fileno()).st_size)
            if stopped:
                _end_tree(process)
                break
        seconds = time.monotonic() - start
        out.seek(0)
        err.seek(0)
        limit = watch.limits.output_bytes
        stdout = out.read(limit)
        stderr = err.read(max(0, limit - len(stdout)))
        if not stopped and (out.read(1) or err.read(1)):
            stopped = "output_bytes"
        code = process.returncode
        return Ended(
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            stdout=stdout,
            stderr=stderr,
            seconds=seconds,
            stopped=stopped,
            not_isolated="this system has no network namespaces",
        )


def _end_tree(process: subprocess.Popen[bytes]) -> None:
    if os.name == "nt":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], check=False, capture_output=True)
    else:
        process.kill()
    process.wait()
