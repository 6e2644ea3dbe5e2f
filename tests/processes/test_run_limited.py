"""Programs that misbehave in every way we could think of, run for real: each ends, is told apart, and leaves nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from stitchcuda.gpu_validate import processes
from stitchcuda.gpu_validate.processes import Ended, Limits, clean_environment, run_limited

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="what is asked of Linux, where /proc tells"
)


PLENTY = Limits(seconds=20)


def python(tmp_path: Path, program: str, limits: Limits = PLENTY, **more: object) -> Ended:
    file = tmp_path / "program.py"
    file.write_text(program)
    return run_limited([sys.executable, "-I", "-S", str(file)], cwd=tmp_path, limits=limits, **more)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_what_it_prints_and_how_it_ends_is_told(tmp_path: Path) -> None:
    before = descriptors()
    ended = python(tmp_path, r"import sys, os; os.write(1, b'\xff\x00out'); os.write(2, b'err'); sys.exit(3)")
    assert (ended.code, ended.signal, ended.stopped, ended.ok) == (3, None, "", False)
    assert (ended.stdout, ended.stderr) == (b"\xff\x00out", b"err")
    assert ended.contained and ended.left_behind == 0 and 0 < ended.seconds < 20
    assert descriptors() == before


def test_a_hang_ends_at_the_limit_though_it_ignores_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.2)
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"
    )
    ended = python(tmp_path, program, Limits(seconds=1.0))
    assert (ended.signal, ended.stopped, ended.stdout) == (9, "seconds", b"on\n")
    assert "limit of seconds" in ended.describe()


def test_sigterm_comes_first(tmp_path: Path) -> None:
    program = """
import signal, sys, time
def tidy(*_): print("tidied", flush=True); sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
time.sleep(600)
"""
    ended = python(tmp_path, program, Limits(seconds=1.0))
    assert (ended.code, ended.stopped, ended.stdout, ended.ok) == (0, "seconds", b"tidied\n", False)


DAEMON = """
import os, signal, sys, time
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            open("daemon.pid", "w").write(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    os.wait()
    while not os.path.exists("daemon.pid") or not open("daemon.pid").read(): time.sleep(0.01)
"""


def test_a_daemon_that_left_its_session_and_holds_the_output_open_is_killed(tmp_path: Path) -> None:
    start = time.monotonic()
    ended = python(tmp_path, DAEMON + "daemon(); print('done')")
    assert (ended.code, ended.stdout, ended.left_behind) == (0, b"done\n", 1)
    assert not alive(int((tmp_path / "daemon.pid").read_text())) and time.monotonic() - start < 10


def test_a_daemon_of_a_program_that_hangs_is_killed_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.2)
    ended = python(tmp_path, DAEMON + "daemon(); time.sleep(600)", Limits(seconds=1.5))
    assert ended.stopped == "seconds" and not alive(int((tmp_path / "daemon.pid").read_text()))


def test_a_process_whose_first_thread_ended_is_no_corpse(tmp_path: Path) -> None:
    """Its state reads Z, and its other threads would work on."""
    program = DAEMON.replace(
        "time.sleep(600)\n        os._exit",
        "import ctypes, _thread; _thread.start_new_thread(time.sleep, (600,)); time.sleep(0.2); "
        "ctypes.CDLL(None).pthread_exit(None)\n        os._exit",
    )
    ended = python(tmp_path, program + "daemon(); time.sleep(0.5)")
    pid = int((tmp_path / "daemon.pid").read_text())
    assert ended.left_behind == 1 and not Path(f"/proc/{pid}/task").exists()


def test_a_signal_is_no_exit_code(tmp_path: Path) -> None:
    ended = python(tmp_path, "import os; os.kill(os.getpid(), 11)")
    assert (ended.code, ended.signal, ended.describe()) == (None, 11, "was ended by signal 11")


def test_a_flood_of_output_is_cut_and_costs_no_memory(tmp_path: Path) -> None:
    program = "import os\nblock = b'x' * (1 << 20)\nfor _ in range(1024): os.write(1, block)"
    ended = python(tmp_path, program, Limits(seconds=60, output_bytes=3 << 20))
    assert ended.stopped == "output_bytes" and len(ended.stdout) == 3 << 20


def test_output_over_the_limit_of_a_program_that_ended_at_once(tmp_path: Path) -> None:
    ended = python(tmp_path, "print('x' * 20000)", Limits(seconds=20, output_bytes=100))
    assert (ended.stopped, ended.stdout, ended.ok) == ("output_bytes", b"x" * 100, False)


def test_one_file_over_the_limit(tmp_path: Path) -> None:
    program = "block = b'x' * (1 << 20)\nwith open('big', 'wb') as f:\n  for _ in range(10240): f.write(block)"
    limits = Limits(seconds=60, file_bytes=8 << 20)
    ended = python(tmp_path, program, limits)
    assert ended.stopped == "file_bytes"
    ended = run_limited(["dd", "if=/dev/zero", "of=big2", "bs=1M", "count=10240"], cwd=tmp_path, limits=limits)
    assert (ended.stopped, ended.signal) == ("file_bytes", 25)
    assert (tmp_path / "big").stat().st_size <= 8 << 20


def test_many_files_over_the_limit(tmp_path: Path) -> None:
    program = "import time\nfor i in range(10000):\n  open(f'f{i}', 'wb').write(b'x' * (1 << 20)); time.sleep(0.01)"
    ended = python(tmp_path, program, Limits(seconds=60, file_bytes=16 << 20))
    assert ended.stopped == "file_bytes" and len(list(tmp_path.iterdir())) < 2000


def test_memory_of_all_its_processes_over_the_limit(tmp_path: Path) -> None:
    program = "import os, time\nfor _ in range(3): os.fork()\nx = b'x' * (32 << 20)\ntime.sleep(600)"
    ended = python(tmp_path, program, Limits(seconds=60, memory_bytes=128 << 20))
    assert ended.stopped == "memory_bytes"


def test_input_is_at_its_end_and_closed_output_is_no_trouble(tmp_path: Path) -> None:
    ended = python(tmp_path, "import sys, os; data = sys.stdin.read(); os.close(1); os.close(2); sys.exit(len(data))")
    assert ended.code == 0 and ended.stdout == b""


def test_what_cannot_be_started_is_said(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("no program")
    (tmp_path / "binary").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "binary").chmod(0o755)

    def reason(*command: str, cwd: Path = tmp_path) -> str:
        ended = run_limited(command, cwd=cwd)
        assert not ended.ok and ended.code is None
        return ended.not_started

    assert "not on PATH" in reason("no-such-program-anywhere")
    assert "No such file" in reason("./missing")
    assert "Permission denied" in reason("./plain.txt")
    assert "format" in reason("./binary")
    assert "no folder" in reason("true", cwd=tmp_path / "absent")


def test_cancelling_from_another_thread(tmp_path: Path) -> None:
    asked = threading.Event()
    threading.Timer(0.7, asked.set).start()
    ended = python(tmp_path, "import time; time.sleep(600)", Limits(seconds=60), cancel=asked.is_set)
    assert (ended.stopped, ended.describe()) == ("cancelled", "was cancelled")


def test_from_several_threads_each_gets_its_own(tmp_path: Path) -> None:
    def one(number: int) -> bytes:
        return run_limited(["sh", "-c", f"echo {number}"], cwd=tmp_path).stdout

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(8))) == [f"{n}\n".encode() for n in range(8)]


def test_a_descriptor_keeps_its_number_and_closes_with_the_program(tmp_path: Path) -> None:
    read, write = os.pipe()
    ended = python(tmp_path, f"import os; os.write({write}, b'told')", pass_fds=(write,))
    os.close(write)
    with os.fdopen(read, "rb") as file:
        assert (ended.code, file.read()) == (0, b"told")


def test_a_program_that_kills_its_warden_is_no_success(tmp_path: Path) -> None:
    ended = python(
        tmp_path, "import os, time; open('pid', 'w').write(str(os.getpid())); os.kill(os.getppid(), 9); time.sleep(600)"
    )
    assert (ended.stopped, ended.ok, ended.contained) == ("containment", False, False)
    deadline = time.monotonic() + 5
    while alive(int((tmp_path / "pid").read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("again", ["", "while True: os.kill(os.getppid(), signal.SIGSTOP)"])
def test_a_program_that_stops_its_warden_is_ended_all_the_same(tmp_path: Path, again: str) -> None:
    stops = "import os, signal, time; open('pid', 'w').write(str(os.getpid())); os.kill(os.getppid(), signal.SIGSTOP)\n"
    begun = time.monotonic()
    ended = python(tmp_path, f"{stops}{again}\ntime.sleep(600)", Limits(seconds=1.0))
    assert ended.stopped == "seconds" and time.monotonic() - begun < 15
    assert not alive(int((tmp_path / "pid").read_text()))


def test_a_daemon_of_a_program_that_kills_its_warden_is_found_when_it_was_seen(tmp_path: Path) -> None:
    """Seen, that is, at one of the looks that are taken several times a second."""
    program = DAEMON.replace("def daemon", "import os, time\ndef daemon", 1)
    ended = python(tmp_path, f"{program}\ndaemon(); time.sleep(1); os.kill(os.getppid(), 9); time.sleep(600)")
    assert (ended.stopped, ended.ok, ended.contained) == ("containment", False, False)
    deadline = time.monotonic() + 5
    while alive(int((tmp_path / "daemon.pid").read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(int((tmp_path / "daemon.pid").read_text()))


def test_processes_without_end_are_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST_PROCESSES", 20)
    chain = "import os, time\nfor _ in range(60):\n    if os.fork(): break\ntime.sleep(600)"
    assert python(tmp_path, chain).stopped == "processes"


def test_files_in_its_temporary_folder_count_too(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    fill = "import os, time; [open(f'{os.environ[\"TMPDIR\"]}/{i}', 'wb').write(bytes(1 << 20)) for i in range(8)]; time.sleep(60)"
    env = clean_environment(home=tmp_path / "home")
    limits = Limits(seconds=20, file_bytes=4 << 20)
    ended = run_limited([sys.executable, "-I", "-S", "-c", fill], cwd=tmp_path / "work", env=env, limits=limits)
    assert ended.stopped == "file_bytes"


def test_no_network_but_loopback(tmp_path: Path) -> None:
    program = """
import socket, sys
here = socket.create_server(("127.0.0.1", 0)); socket.create_connection(here.getsockname()).close()
print(sorted(name for _, name in socket.if_nameindex()))
"""
    ended = python(tmp_path, program)
    assert ended.code == 0, ended.stderr
    if not ended.isolated:
        pytest.skip(f"not cut off here: {ended.not_isolated}")
    assert ended.stdout == b"['lo']\n"
    assert not python(tmp_path, program, network=True).isolated


def test_secrets_and_tracers_stay_out_of_the_environment(tmp_path: Path) -> None:
    source = {
        "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/x", "HOME": "/root",
        "OPENAI_API_KEY": "k", "CUDA_API_KEY": "k", "GITHUB_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "s", "NVIDIA_AUTH": "a",
        "CUDA_INJECTION64_PATH": "/spy.so", "LD_PRELOAD": "/spy.so", "http_proxy": "p", "MAKEFLAGS": "-j",
    }  # fmt: skip
    cleaned = clean_environment({"MINE": "1"}, home=tmp_path, source=source)
    assert set(cleaned) == {
        "PATH", "LANG", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "TMP", "TEMP", "MINE",
    }  # fmt: skip
    assert cleaned["HOME"] == str(tmp_path)
    ended = run_limited(["env"], cwd=tmp_path, env={"PATH": os.environ["PATH"], "ONLY": "this"})
    assert b"ONLY=this" in ended.stdout and len(ended.stdout.splitlines()) == 2


def test_the_reduced_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What systems without a warden get."""
    watch = processes._Watch(Limits(seconds=1.0, output_bytes=100), [tmp_path], None)
    run = processes._run_tree
    assert run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], tmp_path, {}, watch).code == 3
    assert run(["/bin/sh", "-c", "exec sleep 600"], tmp_path, {}, watch).stopped == "seconds"
    late = processes._Watch(Limits(output_bytes=100), [tmp_path], None)
    flood = run(["/bin/sh", "-c", "while :; do echo xxxxxxxxxx; done"], tmp_path, {}, late)
    assert flood.stopped == "output_bytes" and len(flood.stdout) == 100
    assert run(["/no/program"], tmp_path, {}, late).not_started
