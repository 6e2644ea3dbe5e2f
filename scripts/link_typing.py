"""Makes `.typing/stitchcuda` link to the package folders, for type checkers. Needed where git wrote the links as text files: on
Windows without symbolic links (`git config core.symlinks` is false). There it makes junctions, which need no special right."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("analysis", "gpu_validate", "agent", "server")


def main() -> None:
    folder = ROOT / ".typing" / "stitchcuda"
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        link = folder / part
        if link.is_dir():
            continue
        link.unlink(missing_ok=True)
        if os.name == "nt":
            subprocess.run(["cmd", "/c", "mklink", "/J", str(link), str(ROOT / part)], check=True)
        else:
            link.symlink_to(Path("..", "..", part), target_is_directory=True)
        print(f"{link.relative_to(ROOT)} -> {part}")


if __name__ == "__main__":
    main()
