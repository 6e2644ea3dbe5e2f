"""Starts one program, waits for it, and leaves nothing of it behind. Run as a program by `processes`, never imported by it.

It is a process of its own so that it can be the one to which orphans of the program fall (Linux: `PR_SET_CHILD_SUBREAPER`):
a daemon that left its session still has this process as its ancestor, and is found and killed. It also outlives nobody: when
the other end of the control socket closes, everything is killed. Only the standard library is used, and little of it, because
every run pays for starting it.

Protocol, one JSON object a line, over the socket whose descriptor is argv[1]. It reads the request, then `{"stop": seconds}`
(SIGTERM now, SIGKILL after that time); it writes `started` or `not_started`, `ended`, and last `left` (processes that were
still there when the program had ended) with `stuck` (those that SIGKILL did not end).
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)  # Python changed these
STUCK_SECONDS = 10.0  # a process that SIGKILL does not end is waiting in the kernel, as a wedged driver makes it
SWEEP_SECONDS = 0.005


def main(control: socket.socket) -> None:
    control.set_inheritable(False)
    lines = control.makefile("rb", buffering=0)
    request = json.loads(lines.readline())
    reaper = _become_reaper()
    isolated, why = _cut_network() if request["isolate"] else (False, "")
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if hasattr(os, "pipe2") else os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if request["file_bytes"] is not None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        wanted = request["file_bytes"]
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, soft))
    # When memory runs out it is the program that goes, not the user's editor.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    try:
        os.chdir(request["cwd"])
        start = time.monotonic_ns()
        child = os.posix_spawn(request["program"], request["argv"], request["env"], setsid=True, setsigdef=RESTORED)
    except OSError as error:
        _send(control, not_started=f"{os.strerror(error.errno or 0)}", errno=error.errno)
        return
    # At once: the program may be about to kill this process, and then its id is needed to find it.
    _send(control, started=child, isolated=isolated, why=why, reaper=reaper)
    _close_inherited(control.fileno(), wake_read, wake_write, request["pass_fds"])
    _watch(control, lines, child, start, wake_read)
    left = _members(child)
    stuck = _sweep(child)
    _send(control, left=len(left), stuck=stuck)


def _watch(control: socket.socket, lines: Any, child: int, start: int, wake: int) -> None:
    """Until the program has ended; tells when it did."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    kill_at = float("inf")
    while True:
        for pid, status, usage in _reap():
            if pid == child:
                seconds = (time.monotonic_ns() - start) / 1e9
                cpu, rss = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
                _send(control, ended=os.waitstatus_to_exitcode(status), seconds=seconds, cpu=cpu, rss=rss)
                return
        if time.monotonic() >= kill_at:
            _signal_all(child, signal.SIGKILL)
        wait = None if kill_at == float("inf") else max(1, int((kill_at - time.monotonic()) * 1000))
        for descriptor, _ in poll.poll(wait):
            if descriptor == wake:
                os.read(wake, 4096)
            else:
                line = lines.readline()
                grace = json.loads(line)["stop"] if line else 0.0  # the other end is gone
                if not line:
                    poll.unregister(control)
                _signal_all(child, signal.SIGTERM if grace else signal.SIGKILL)
                kill_at = min(kill_at, time.monotonic() + grace)


def _reap() -> list[tuple[int, int, Any]]:
    """Every child that ended, adopted ones included."""
    ended: list[tuple[int, int, Any]] = []
    while True:
        try:
            pid, status, usage = os.wait3(os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status, usage))


def _sweep(child: int) -> list[int]:
    """Kills what is left; the ids of processes that would not end."""
    give_up = time.monotonic() + STUCK_SECONDS
    while (members := _members(child)) or _has_children():
        if time.monotonic() > give_up:
            return members
        _signal_all(child, signal.SIGKILL)
        _reap()
        time.sleep(SWEEP_SECONDS)
    return []


def _has_children() -> bool:
    """Dead ones not yet buried included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _signal_all(child: int, number: int) -> None:
    members = _members(child)
    if number == signal.SIGKILL or members == [child]:  # once each: a second SIGTERM would meet a handler at work
        with contextlib.suppress(OSError):
            os.killpg(child, number)
    for pid in members if members != [child] else ():
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _members(child: int) -> list[int]:
    """The living descendants of this process, where /proc tells them; else whether the program's group is there still."""
    parents: dict[int, list[int]] = {}
    try:
        entries = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        try:
            os.killpg(child, 0)
        except OSError:
            return []
        return [child]
    for pid in entries:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        dead = (
            fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
        )  # a leader that ended while its threads go on is alive
        if not dead:
            parents.setdefault(int(fields[1]), []).append(pid)
    found, ahead = [], [os.getpid()]
    while ahead:
        below = parents.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def _become_reaper() -> bool:
    """Whether orphans of the program fall to this process."""
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def _cut_network() -> tuple[bool, str]:
    """A network of its own with nothing but loopback, as root or through a user namespace; else why not."""
    if not sys.platform.startswith("linux"):
        return False, "this system has no network namespaces"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) == 0:
        return _loopback_up()
    if not _succeeds(lambda: _enter_namespaces(libc)):  # tried in a copy of this process: half of it cannot be undone
        return False, "the system allows no network namespace to this user"
    _enter_namespaces(libc)
    return _loopback_up()


def _enter_namespaces(libc: Any) -> None:
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _succeeds(action: Any) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            action()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _loopback_up() -> tuple[bool, str]:
    """Programs talk to their own helpers over 127.0.0.1; a new network has it, switched off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket, contextlib.suppress(OSError):
        asked = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, asked))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
    return True, ""


def _close_inherited(control: int, wake_read: int, wake_write: int, passed: list[int]) -> None:
    """This process must not hold open what the program writes to, or its reader never sees the end."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    for descriptor in {*passed, null} - {0, 1, 2, control, wake_read, wake_write}:
        os.close(descriptor)


def _send(control: socket.socket, **message: Any) -> None:
    try:
        control.sendall(json.dumps(message).encode() + b"\n")
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
            raise


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
