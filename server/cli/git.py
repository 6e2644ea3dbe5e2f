"""Asks git, without letting a repository's settings start programs or the surroundings say which repository is meant."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from stitchcuda.server.cli.errors import CannotRun

_SECONDS = 60.0
# What hooks inherit from the git that runs them: it is about that repository, not about the one of `folder`.
_ABOUT_A_REPOSITORY = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_LITERAL_PATHSPECS",
    "GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE",
)  # fmt: skip
_SETTINGS = ("--no-pager", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")


class GitRefused(CannotRun):
    """Git ran and said no."""


def git(folder: Path, *words: str, option: str) -> bytes:
    """What git prints. `option` is what the user wrote, for messages. Raises GitRefused, or CannotRun when it cannot be asked."""
    program = shutil.which("git")
    if program is None:
        raise CannotRun(f"{option} needs git, which is not on PATH")
    around = {k: v for k, v in os.environ.items() if k not in _ABOUT_A_REPOSITORY}
    around |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    command = [program, *_SETTINGS, *words]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=around,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CannotRun(f"{option}: git {words[0]} took more than {_SECONDS:.0f} s") from None
    except OSError as error:
        raise CannotRun(f"{option}: git cannot be run ({error.strerror})") from None
    if done.returncode != 0:
        told = done.stderr.decode(errors="replace").strip().partition("\n")[0] or f"exit code {done.returncode}"
        raise GitRefused(f"{option}: git {words[0]}: {told.removeprefix('fatal: ')}")
    return done.stdout
