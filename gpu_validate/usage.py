"""What processes and folders take at this moment, as far as the system tells (/proc on Linux; elsewhere nothing is known)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path


def kill_session(session: int, seen: Mapping[int, int] = {}) -> None:
    """Kills every process of a session that can be found, and those that were `seen` (with when they began: a number can be
    another process's by now) with their descendants."""
    for known in [pid for pid, began in seen.items() if began and began == beginning(pid)]:
        for pid in (*descendants(known), known):
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
    for pid in process_ids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session:
                os.kill(pid, 9)


def beginning(pid: int) -> int:
    """When a process began, in ticks since the system did; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def process_ids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Descendants of a process, as far as /proc tells."""
    found: list[int] = []
    ahead = [pid]
    while ahead:
        parent = ahead.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                children = Path(f"/proc/{parent}/task/{task}/children").read_text(encoding="ascii").split()
                found += map(int, children)
                ahead += map(int, children)
    return found


def most_memory() -> int | None:
    """Bytes that a program may take on this machine: nine tenths of what the machine, or the container, has. None when that
    is not known."""
    known: list[int] = []
    for file, pattern in (
        ("/proc/meminfo", r"MemTotal:\s*(\d+) kB"),
        ("/sys/fs/cgroup/memory.max", r"(\d+)\s*$"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", r"(\d+)\s*$"),
    ):
        with contextlib.suppress(OSError):
            match = re.match(pattern, Path(file).read_text(encoding="ascii"))
            known += [int(match[1]) * (1024 if "kB" in pattern else 1)] if match else []
    return min(known) * 9 // 10 if known else None


def resident_bytes(pid: int) -> int:
    """Bytes of memory that a process holds; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def folder_bytes(folder: Path) -> int:
    """Bytes that the files below `folder` take on the disk (their length, where the system does not tell)."""
    total, ahead = 0, [str(folder)]
    while ahead:
        try:
            with os.scandir(ahead.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(entry.path)
                    else:
                        stat = entry.stat(follow_symlinks=False)
                        total += getattr(stat, "st_blocks", -(-stat.st_size // 512)) * 512
        except OSError:
            continue
    return total
