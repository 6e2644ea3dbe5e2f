"""Writing a user's file in one step."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from stitchcuda.server.cli.errors import CannotRun


def replace_file(path: str, content: bytes) -> None:
    """Writes a file in one step: a reader or a crash sees the old or the new text, never a part. Links are followed and
    the mode is kept. Raises CannotRun."""
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode & 0o7777 if os.path.exists(target) else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(dir=os.path.dirname(target) or ".", prefix=".stitchcuda-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, mode)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CannotRun(f"{path}: cannot be written ({error.strerror})") from None


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
