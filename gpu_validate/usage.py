"""What processes and folders take at this moment, as far as the system tells (/proc on Linux; elsewhere nothing is known)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def kill_session(session: int) -> None:
    """Kills every process of a session that can be found."""
    for pid in process_ids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session:
                os.kill(pid, 9)


def process_ids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Descendants of a process, as far as /proc tells."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii").split())
    except OSError:
        return []
    return found + [deeper for child in found for deeper in descendants(child)]


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
