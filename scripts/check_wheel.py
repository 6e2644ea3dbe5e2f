"""Checks that a wheel holds every module, the rule pages and the examples, and nothing else. In one for a certain machine, the
analysis is compiled.

usage: python -m scripts.check_wheel WHEEL"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

from scripts.compile_analysis import GROUP, PACKAGE, modules

ROOT = Path(__file__).parents[1]
PARTS = ("analysis", "gpu_validate", "agent", "server")
EXAMPLES = ("vit", "vit_expert")


def expected() -> set[str]:
    """Paths in the wheel, from the files of the checkout."""
    paths = [path for part in PARTS for path in (ROOT / part).rglob("*")]
    paths += (ROOT / "docs").glob("*.md")
    paths += (ROOT / "docs" / "rules").glob("*.md")
    paths += [path for name in EXAMPLES for path in (ROOT / "examples" / name).rglob("*")]
    files = [path.relative_to(ROOT).as_posix() for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return {f"stitchcuda/{name}" for name in files}


def compiled() -> set[str]:
    """Names of extension modules, without what the platform puts behind them."""
    names = {f"{PACKAGE}.{'.'.join(m.with_suffix('').parts)}" for m in modules(ROOT / "analysis")} | {f"{GROUP}__mypyc"}
    return {name.replace(".", "/") for name in names}


def main(wheel: str) -> int:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    extensions = {name for name in names if name.endswith((".so", ".pyd"))}
    found = names - extensions | {name.partition(".")[0] for name in extensions}
    wanted = expected() | (set() if wheel.endswith("-none-any.whl") else compiled())
    missing, extra = sorted(wanted - found), sorted(found - wanted)
    for name in missing:
        print(f"missing in the wheel: {name}")
    for name in extra:
        print(f"should not be in the wheel: {name}")
    print(f"{Path(wheel).name}: {len(found)} files, {len(missing)} missing, {len(extra)} too many")
    return 1 if missing or extra else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
