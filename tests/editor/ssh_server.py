"""An sshd of the test's own on 127.0.0.1: its own port, host key and authorized key, below one folder. It lets in the user who runs it."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Machine:
    """`ssh` holds the words of a client that needs no question answered, up to and with the host; `pid` is the sshd's."""

    ssh: tuple[str, ...]
    pid: int

    def below(self) -> dict[int, list[str]]:
        """The processes that were started through it: pid -> words."""
        parents: dict[int, int] = {}
        words: dict[int, list[str]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    state, above_it = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]
                    line = (entry / "cmdline").read_bytes()
                except (OSError, ValueError):
                    continue  # it has ended meanwhile
                if state != b"Z":
                    parents[int(entry.name)] = int(above_it)
                    words[int(entry.name)] = line.decode(errors="replace").rstrip("\0").split("\0")
        found = {}
        for pid, own in words.items():
            above: int | None = pid
            while above is not None and above != self.pid:
                above = parents.get(above)
            if above == self.pid and pid != self.pid:
                found[pid] = own
        return found


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """Skips the test where there is no sshd."""
    sshd = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    if sshd is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no sshd, ssh or ssh-keygen; the package openssh-server brings them")
    if not Path("/proc/self/stat").exists():
        pytest.skip("reads /proc")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where an sshd that root starts has its empty folder
    place = folder / "ssh"
    place.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (place / "authorized").write_bytes((place / "user.pub").read_bytes())
    (place / "known").write_text(f"[127.0.0.1]:{port} {(place / 'host.pub').read_text()}", encoding="utf-8")
    (place / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nPidFile {place}/pid\n"
        f"AuthorizedKeysFile {place}/authorized\nStrictModes no\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nUsePAM no\nPrintMotd no\n",
        encoding="utf-8",
    )
    log = place / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen([sshd, "-D", "-e", "-f", str(place / "config")], stderr=errors)
    options = (f"UserKnownHostsFile={place}/known", "StrictHostKeyChecking=yes", "BatchMode=yes", "IdentitiesOnly=yes")
    ssh = ("ssh", "-F", "none", "-q", "-p", str(port), "-i", f"{place}/user", *(w for o in options for w in ("-o", o)))
    found = Machine((*ssh, f"{getpass.getuser()}@127.0.0.1"), process.pid)
    try:
        for _ in range(100):
            done = subprocess.run([*found.ssh, "true"], capture_output=True, timeout=30, check=False)
            if done.returncode == 0:
                break
            if process.poll() is not None:
                pytest.skip(f"sshd does not start here: {log.read_text(errors='replace').strip()}")
            time.sleep(0.1)
        else:
            pytest.skip(f"sshd lets nobody in here: {log.read_text(errors='replace').strip()}")
        yield found
    finally:
        for pid in found.below():
            os.kill(pid, signal.SIGKILL)
        process.terminate()
        process.wait(10)
