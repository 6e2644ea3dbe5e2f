"""The two versions that `stitchcuda validate` compares: two folders or files, or a revision and what is there now."""

from __future__ import annotations

import os
from pathlib import Path

from stitchcuda.gpu_validate.analysed import SOURCES
from stitchcuda.gpu_validate.building.trees import LEFT_OUT, PRODUCTS
from stitchcuda.gpu_validate.version import Version
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.git import GitRefused, git

_CODE = (*SOURCES, ".py")
_MOST_BYTES = 4 << 20  # a larger file is data


def two_paths(baseline: str, candidate: str) -> tuple[Version, Version]:
    """The baseline as it is, and the candidate as the texts that differ in it. Raises CannotRun."""
    one, other = Path(baseline), Path(candidate)
    for path in (one, other):
        if not path.exists():
            raise CannotRun(f"{path}: no such file or folder")
    if one.is_dir() != other.is_dir():
        raise CannotRun(f"{one} and {other}: give two folders or two files")
    original = Version(one)
    if not one.is_dir():
        text = _read(other)
        return original, original.with_texts({one.name: text} if text != _read(one) else {})
    before, after = _files(one), _files(other)
    gone = sorted(name for name in before - after if name.endswith(_CODE))
    if gone:
        more = f" and {len(gone) - 1} other files" if len(gone) > 1 else ""
        raise CannotRun(f"{other} lacks {gone[0]}{more}; a version can change and add files, not remove them")
    texts = {name: _read(other / name) for name in sorted(after) if _differs(one / name, other / name)}
    return original, original.with_texts(texts)


def against_revision(path: str, revision: str) -> tuple[Version, Version]:
    """The files as they were at a revision, and as they are now. Files that git does not know belong to both. Raises CannotRun."""
    root = Path(path)
    if not root.exists():
        raise CannotRun(f"{root}: no such file or folder")
    folder = root if root.is_dir() else root.parent
    if revision.startswith("-"):
        raise CannotRun(f"--against {revision}: not a revision")
    _git(folder, "rev-parse", "--git-dir", what=f"--against {revision}: {folder} lies in no git repository")
    _git(
        folder,
        "rev-parse",
        "--verify",
        "--quiet",
        f"{revision}^{{commit}}",
        what=f"--against {revision}: no such commit",
    )
    scope = "." if root.is_dir() else root.name
    listed = _git(folder, "diff", "--name-status", "--no-renames", "--relative", "-z", revision, "--", scope)
    words = listed.decode(errors="surrogateescape").split("\0")
    texts: dict[str, bytes] = {}
    for state, name in zip(words[::2], words[1::2], strict=False):
        if state.startswith("D"):
            raise CannotRun(
                f"{folder / name} was removed since {revision}; a version can change and add files, not remove them"
            )
        if state.startswith("A"):
            continue  # nothing of the old version names it
        texts[name] = _git(folder, "show", f"{revision}:./{name}")
    now = Version(root)
    return now.with_texts(texts), now


def _files(folder: Path) -> set[str]:
    """Texts below a folder, without what builds, editors and version control put there."""
    out = set()
    for base, folders, files in os.walk(folder):
        folders[:] = [n for n in folders if n not in LEFT_OUT and not (Path(base, n) / "CMakeCache.txt").exists()]
        for name in files:
            path = Path(base, name)
            if path.suffix.lower() not in PRODUCTS and path.is_file() and path.stat().st_size <= _MOST_BYTES:
                out.add(path.relative_to(folder).as_posix())
    return out


def _differs(one: Path, other: Path) -> bool:
    """Whether the text is new or changed. Programs and other binary files are made by the build."""
    text = _read(other)
    if b"\0" in text[:8192]:
        return False
    return not one.is_file() or _read(one) != text


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotRun(f"{path}: {error.strerror or error}") from None


def _git(folder: Path, *words: str, what: str = "") -> bytes:
    try:
        return git(folder, *words, option="--against")
    except GitRefused as error:
        raise CannotRun(what or str(error)) from None
