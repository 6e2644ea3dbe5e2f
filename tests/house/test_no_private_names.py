"""Nothing in the repository names a package registry's host or a folder of the machine it was written on."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Written in pieces, so that this file passes its own test.
HOSTS = (
    "pypi" + r"\.org",
    "python" + r"hosted\.org",
    "npmjs" + r"\.(org|com)",
    "deb" + r"\.debian\.org",
    "npm" + "mirror",
)
PATHS = ("/wo" + "rk/", "/ro" + "ot/", "/opt/py" + "pi")
FORBIDDEN = re.compile("|".join((*HOSTS, *PATHS)))


def repository_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    return [path for name in names if name and (path := ROOT / name).is_file() and not path.is_symlink()]


def test_nothing_names_a_registry_or_a_private_path() -> None:
    found = []
    for path in repository_files():
        text = path.read_bytes().decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), 1):
            if match := FORBIDDEN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    assert not found, "\n".join(found)
